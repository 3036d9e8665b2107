import * as Files from "node:fs"
import * as Os from "node:os"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { checksOfMachine } from "../../../src/infra/cli/machine.ts"

const leftovers = () => Files.readdirSync(Os.tmpdir()).filter((name) => name.startsWith("holdfast-doctor-"))

describe("machine", () => {
  it.live("every part of the machine is looked at once, by real runs, and nothing is left behind", () =>
    Effect.gen(function* () {
      const before = leftovers()
      const checks = yield* checksOfMachine({ databaseUrl: undefined })
      assert.deepStrictEqual(
        checks.map(({ name }) => name),
        ["node", "supervisor bubblewrap", "supervisor unshare", "cgroups", "desktop", "database"]
      )
      const by = new Map(checks.map((check) => [check.name, check]))
      assert.include(by.get("node")?.detail, process.versions.node)
      assert.include(by.get("database")?.detail, "PostgreSQL 18")
      assert.match(by.get("supervisor unshare")?.detail ?? "", /a program ran|trial run/)
      assert.deepStrictEqual(leftovers(), before)
    })
  )
})
