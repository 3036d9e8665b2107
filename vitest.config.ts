import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/globalSetup.ts"],
    maxWorkers: 2,
    // The files of a worker share its modules, which halves the run; whoever changes the process puts it back.
    isolate: false,
    testTimeout: 20_000,
    hookTimeout: 60_000
  }
})
