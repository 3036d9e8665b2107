/** What one worker process gets from its daemon, and how it ends. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { withRunParent } from "../../../src/domain/runLeases/RunParent.ts"
import { WorkerKeeping } from "../../../src/infra/providers/ProviderWorkers.ts"
import { isGone } from "../../support/processes.ts"
import { waitFor } from "../../support/waiting.ts"
import { impatientWorkers, pluginA, running, written } from "./workerHarness.ts"

layer(impatientWorkers, { excludeTestServices: true, timeout: 60_000 })("providers/workerProcess", (it) => {
  it.effect(
    "a worker gets nothing of the daemon's environment, and the run's traceparent beside its parameters",
    () =>
      Effect.gen(function* () {
        process.env["HOLDFAST_TEST_CANARY"] = "canary-of-the-daemon"
        yield* Effect.addFinalizer(() => Effect.sync(() => delete process.env["HOLDFAST_TEST_CANARY"]))
        const files = yield* written(
          "serve({ methods: { tell: (params, { traceparent }) => ({ params, traceparent, names: Object.keys(process.env) }) } })"
        )
        const manager = yield* running(files)
        const parent = {
          traceId: "0af7651916cd43dd8448eb211c80319c",
          spanId: "b7ad6b7169203331",
          traceFlags: 1
        }
        const answer = yield* withRunParent(parent)(manager.call(pluginA, "tell", { a: 1 }, 30_000))
        assert.deepInclude(answer, {
          params: { a: 1 },
          traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        })
        assert.notInclude(JSON.stringify(answer), "HOLDFAST_TEST_CANARY")
      })
  )

  it.effect(
    "a worker that reads no end of its input and ignores signals is gone with its children when it is no longer kept",
    () =>
      Effect.gen(function* () {
        const files = yield* written(
          `import { spawn } from "node:child_process"
         process.on("SIGTERM", () => undefined)
         const child = spawn("sleep", ["1000"], { stdio: "ignore" })
         process.exit = () => undefined
         setInterval(() => undefined, 1000)
         serve({ methods: { pids: () => [process.pid, child.pid] } })`
        )
        const manager = yield* running(files)
        const pids = (yield* manager.call(pluginA, "pids", {}, 30_000)) as ReadonlyArray<number>
        yield* (yield* WorkerKeeping).keep([])
        assert.isFalse(manager.isRunning(pluginA))
        yield* waitFor({
          fact: "nothing of it is left",
          look: Effect.sync(() => pids.every(isGone)),
          holds: (gone) => gone,
          deadlineMillis: 5_000
        })
      })
  )
})
