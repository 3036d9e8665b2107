import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import * as Files from "node:fs"
import { fileURLToPath } from "node:url"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import { portsOn, recordOf } from "./fixture.ts"
import { layOutSnapshot, layOutUnactivated, owner } from "./snapshotFixture.ts"

const program = fileURLToPath(new URL("openKilledAt.ts", import.meta.url))

/** Opens the directory in a process that is killed at that boundary; answers the boundaries that it has reached. */
const openKilledAt = (directory: string, boundary: number | null) => {
  const { signal, status, stdout } = spawnSync(process.execPath, [program, directory, String(boundary)], {
    encoding: "utf8"
  })
  return { end: signal ?? status, reached: stdout.trim().split("\n") }
}

/**
 * Where the disk has become another one. Every boundary is visited within one process by layoutCreation.test.ts; a
 * real death adds the descriptors and writes that are open at it.
 */
const killedAfter = [
  "set records/ aside",
  "stage a record",
  "sync the staging directory",
  "place records/",
  "write the header",
  "activate"
]

describe("registry/openRegistry, killed", () => {
  it.live(
    "RG-MIG-03 a process that is killed behind any change of the disk has lost nothing of the snapshot",
    () =>
      Effect.gen(function* () {
        const records = [recordOf(1), recordOf(2, { status: "Running" })]
        const whole = yield* layOutSnapshot(records)
        layOutUnactivated(whole)
        const { end, reached } = openKilledAt(whole.directory, null)
        assert.strictEqual(end, 0)
        for (const step of killedAfter) {
          const boundary = `after ${step}`
          const index = reached.indexOf(boundary)
          assert.isAtLeast(index, 0, boundary)
          const place = yield* layOutSnapshot(records)
          layOutUnactivated(place)
          const killed = openKilledAt(place.directory, index + 1)
          assert.deepStrictEqual([killed.end, killed.reached.at(-1)], ["SIGKILL", boundary])
          const opened = yield* Effect.scoped(Effect.provide(openRegistry(), portsOn(place.directory)))
          assert.strictEqual(opened.owner, owner, boundary)
          assert.sameDeepMembers(
            opened.records.map((record) => ({ ...record })),
            records.map((record) => ({ ...record })),
            boundary
          )
          assert.deepStrictEqual(Files.readdirSync(place.directory).toSorted(), [
            "records",
            "runtime",
            "sandboxes.json"
          ])
        }
      }),
    120_000
  )
})
