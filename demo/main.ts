/**
 * The main job of Holdfast, shown on this machine with real parts: a real PostgreSQL, real guests, a daemon that is
 * really killed. Ends with a count of what is left; the exit code is 0 only when that is nothing.
 * `--keep` leaves everything running for a look.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import { ApiClient, layer } from "../src/infra/http/apiClient.ts"
import { socketPathOf } from "../src/layers/config.ts"
import type { Stage } from "./conversation.ts"
import * as Screen from "./Screen.ts"
import * as story from "./story.ts"

const keep = process.argv.includes("--keep")

/** The demo's daemon samples often, so that a minute shows something. */
const settings = { HOLDFAST_SAMPLE_INTERVAL_MILLIS: "150" }

const program = Effect.gen(function* () {
  const home = mkdtempSync(join(tmpdir(), "holdfast-demo-"))
  // The users that the database and the guests run under pass through it; what is below has modes of its own.
  chmodSync(home, 0o711)
  const client = yield* ApiClient.pipe(Effect.provide(layer(socketPathOf(home))))
  const stage: Stage = { home, client, settings, sandboxes: new Set() }

  const first = yield* story.bootUp(stage)
  yield* Effect.addFinalizer(() => Effect.sync(() => void (keep || first.process.kill("SIGKILL"))))
  const guest = yield* story.provision(stage)
  yield* story.buildAndTest(stage)
  const before = yield* story.startCounter(stage)
  const second = yield* story.killInTheMiddle(stage, first)
  yield* Effect.addFinalizer(() => Effect.sync(() => void (keep || second.process.kill("SIGKILL"))))
  yield* story.showReadopted(stage, guest, before)
  if (keep) {
    story.showHowToLook(stage, second)
    second.process.unref()
    return 0
  }
  yield* story.deleteEverything(stage)
  const left = yield* story.countLeftovers(stage, second)
  if (left === 0) {
    rmSync(home, { recursive: true, force: true })
    rmSync(`${home}.log`, { force: true })
  }
  return left === 0 ? 0 : 1
}).pipe(
  Effect.scoped,
  Effect.catch((failure) =>
    Effect.sync(() => {
      Screen.clearBar()
      Screen.say(`The demo failed: ${failure.message}`)
      return 1
    })
  )
)

NodeRuntime.runMain(Effect.flatMap(program, (code) => Effect.sync(() => process.exit(code))))
