/** P15c: what a call of a provider's worker costs beside the same question over bare pipes. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ProviderWorkers } from "../../src/domain/providers/ProviderWorkers.ts"
import { layer, WorkerKeeping } from "../../src/infra/providers/ProviderWorkers.ts"
import type { Suite } from "../lib/definition.ts"
import { diskDirectory } from "../lib/disk.ts"
import { benchPlugin, managedCalls, plainCalls, writeWorker } from "../lib/workerCallWork.ts"

export const workerCalls: Suite = {
  id: "P15c",
  title: "calls of a worker",
  what: "One request to a worker process over its pipes and its answer. The bare client writes lines and reads them; the manager bounds every message, has a budget and a cancellation for each call, and types what can go wrong.",
  figure: { name: "perSecond", better: "higher" },
  beside: ["p50Millis", "p99Millis", "clientCpuMicros"],
  baseline: "bare stdio",
  workers: [1, 4, 16],
  // An overhead of at most one and a half times the bare call.
  targets: [{ contender: "worker manager", ratioAtLeast: 0.66 }],
  open: () =>
    Effect.gen(function* () {
      const files = writeWorker(yield* diskDirectory)
      const context = yield* Layer.build(layer({ installation: "bench" }))
      yield* Context.get(context, WorkerKeeping).keep([{ plugin: benchPlugin, files }])
      const manager = Context.get(context, ProviderWorkers)!
      yield* Effect.sleep(20).pipe(Effect.repeat({ until: () => manager.isRunning(benchPlugin) }))
      return { contenders: [plainCalls(files), managedCalls(manager)], leftOut: [], setting: {} }
    })
}
