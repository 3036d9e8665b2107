import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { checksOfMachine } from "../../../src/infra/cli/machine.ts"

/** What another daemon or test leaves in the common folder of this moment is not this one's. */
const ownTemporaryFolder = Effect.acquireRelease(
  Effect.sync(() => {
    const former = process.env["TMPDIR"]
    const folder = Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-machine-"))
    // The users of guests pass through it.
    Files.chmodSync(folder, 0o711)
    process.env["TMPDIR"] = folder
    return { folder, former }
  }),
  ({ folder, former }) =>
    Effect.sync(() => {
      if (former === undefined) delete process.env["TMPDIR"]
      else process.env["TMPDIR"] = former
      Files.rmSync(folder, { recursive: true, force: true })
    })
)

describe("machine", () => {
  it.live("every part of the machine is looked at once, by real runs, and nothing is left behind", () =>
    Effect.gen(function* () {
      const { folder } = yield* ownTemporaryFolder
      const checks = yield* checksOfMachine({ databaseUrl: undefined })
      assert.deepStrictEqual(
        checks.map(({ name }) => name),
        ["node", "supervisor bubblewrap", "supervisor unshare", "cgroups", "desktop", "database"]
      )
      const by = new Map(checks.map((check) => [check.name, check]))
      assert.include(by.get("node")?.detail, process.versions.node)
      assert.include(by.get("database")?.detail, "PostgreSQL 18")
      assert.match(by.get("supervisor unshare")?.detail ?? "", /a program ran|trial run/)
      assert.deepStrictEqual(Files.readdirSync(folder), [])
    })
  )
})
