import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/globalSetup.ts"],
    maxWorkers: 2,
    testTimeout: 20_000,
    hookTimeout: 60_000
  }
})
