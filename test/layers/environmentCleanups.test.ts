/** Ends that a provider does not carry out at once: what the command line says of them, and how they come to an end. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { awaitReady, makePlace, startDaemon } from "../support/daemonProcess.ts"
import { waitFor } from "../support/waiting.ts"
import { holdfast } from "./cliHarness.ts"

const testMillisMax = 120_000
const example = resolve(import.meta.dirname, "../../examples/provider-plugins/scripted")

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "hf-cleanup-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const scene = Effect.gen(function* () {
  const place = yield* makePlace
  const client = yield* awaitReady(place, yield* startDaemon(place))
  const state = yield* folder
  const asked = (...args: ReadonlyArray<string>) => holdfast(["--home", place.home, ...args])
  yield* asked("provider", "add", example)
  yield* asked("env", "create", "remote", "--provider", "scripted", "--set", `stateDirectory=${state}`)
  yield* waitFor({
    fact: "the plugin's worker runs",
    look: client.providers.list(),
    holds: ([provider]) => provider?.worker.running === true,
    deadlineMillis: 30_000,
    everyMillis: 50
  })
  const faults = (made: object) => writeFileSync(join(state, "faults.json"), JSON.stringify(made))
  return { asked, client, faults }
})

const away = { environmentDestroyLease: Array.from({ length: 99 }, () => ({ fault: "status", status: 503 })) }

describe("cleanups of a daemon", () => {
  it.live(
    "FC-05 FC-09 an end that is owed is told, is no success, keeps its provider, and is had when it can be",
    () =>
      Effect.gen(function* () {
        const { asked, client, faults } = yield* scene
        faults(away)
        const ran = yield* asked("run", "remote", "--", "echo", "hi")
        assert.deepStrictEqual([ran.exit, ran.stdout], [0, "hi\n"])
        assert.include(ran.stderr, "is owed")
        const newest = Effect.map(client.environmentLeases.list({ query: {} }), ([lease]) => lease!)
        const { id } = yield* newest
        const swept = yield* asked("sweep")
        assert.deepStrictEqual([swept.exit, swept.stdout], [1, "attempted 1, done 0, failed 1\n"])
        assert.strictEqual((yield* asked("lease", "destroy", id)).exit, 1)
        const why = yield* asked("lease", "why", id)
        assert.include(why.stdout, "its end is owed, after 3 tries")
        const kept = yield* asked("provider", "remove", "example.scripted")
        assert.strictEqual(kept.exit, 5)
        assert.include(kept.stderr, "provider_in_use")
        faults({})
        assert.strictEqual((yield* asked("lease", "retry", id)).exit, 0)
        const again = yield* asked("sweep")
        assert.deepStrictEqual([again.exit, again.stdout], [0, "attempted 1, done 1, failed 0\n"])
        assert.deepInclude(yield* newest, { status: "expired", cleanupStatus: "success" })
        assert.strictEqual((yield* asked("lease", "retry", id)).exit, 5)
        assert.strictEqual((yield* asked("provider", "remove", "example.scripted")).exit, 0)
        const nothing = yield* asked("sweep")
        assert.deepStrictEqual([nothing.exit, nothing.stdout], [0, "attempted 0, done 0, failed 0\n"])
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "what does not exist, and what is no id, is told apart by the exit code",
    () =>
      Effect.gen(function* () {
        const { asked } = yield* scene
        const absent = "00000000-0000-4000-8000-000000000000"
        const exits = yield* Effect.forEach(
          [
            ["env", "show", "nowhere"],
            ["lease", "show", absent],
            ["lease", "show", "no-id"],
            ["provider", "remove", "nobody"],
            ["secret", "bind", "nothing", "remote", "apiKey"],
            ["env", "create", "remote", "--provider", "node"],
            ["env", "update", "remote"],
            ["run", "nowhere", "--", "true"]
          ],
          (args) => Effect.map(asked(...args), ({ exit }) => exit)
        )
        assert.deepStrictEqual(exits, [4, 4, 2, 4, 4, 5, 2, 255])
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
