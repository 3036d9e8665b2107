/**
 * Adapter of the worker manager: keeps one process for each installed provider plugin, starts it again after a pause
 * that grows when it dies, and never lets one worker's fault reach another's callers.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Bounds from "../../domain/Bounds.ts"
import type { ProviderPluginId } from "../../domain/Identity.ts"
import {
  ProviderCallFailed,
  type ProviderWorkerManager,
  ProviderWorkers
} from "../../domain/providers/ProviderWorkers.ts"
import { ActiveStepContext, traceparentOf } from "../../domain/runLeases/RunParent.ts"
import type { CallError } from "./workerChannel.ts"
import type * as Messages from "./workerMessages.ts"
import { type RunningWorker, startWorker, type WorkerFiles, type WorkerSettings } from "./workerProcess.ts"

/** A worker as people see it. */
export interface WorkerStanding {
  readonly plugin: ProviderPluginId
  readonly pluginKey: string
  readonly pid: number | null
  /** Starts since this plugin was last kept, the first among them. */
  readonly starts: number
  /** The newest reason why it does not run, a fixed word; null while it runs. */
  readonly trouble: string | null
}

/** Which workers are kept: told by whoever reads the installed plugins. */
export class WorkerKeeping extends Context.Service<
  WorkerKeeping,
  {
    /** Keeps these and no others. A worker whose files are the same goes on. */
    readonly keep: (
      workers: ReadonlyArray<{ readonly plugin: ProviderPluginId; readonly files: WorkerFiles }>
    ) => Effect.Effect<void>
    readonly standings: Effect.Effect<ReadonlyArray<WorkerStanding>>
  }
>()("holdfast/infra/providers/ProviderWorkers/WorkerKeeping") {}

interface Kept {
  readonly files: WorkerFiles
  running: RunningWorker | undefined
  starts: number
  trouble: string | null
  fiber: Fiber.Fiber<unknown, never> | undefined
}

export interface WorkerOptions extends WorkerSettings {
  /** Where a worker's standard error goes; nowhere unless given, since it may say anything. */
  readonly errors?: (pluginKey: string, text: string) => void
}

/** One life of the process, from its start to its end; answers how long it lived. */
const live = (kept: Kept, { errors, ...settings }: WorkerOptions) =>
  Effect.gen(function* () {
    const startedAtMillis = yield* Clock.currentTimeMillis
    kept.starts += 1
    const worker = yield* startWorker(kept.files, {
      ...settings,
      ...(errors === undefined ? {} : { errors: (text: string) => errors(kept.files.pluginKey, text) })
    })
    kept.running = worker
    kept.trouble = null
    yield* worker.ended
    kept.trouble = "crashed"
    return (yield* Clock.currentTimeMillis) - startedAtMillis
  }).pipe(
    Effect.scoped,
    Effect.catch((error) =>
      Effect.sync(() => {
        kept.trouble = error._tag === "ProviderCallFailed" ? error.why : "refused the handshake"
        return 0
      })
    ),
    Effect.ensuring(Effect.sync(() => void (kept.running = undefined)))
  )

const supervise = Effect.fnUntraced(function* (kept: Kept, options: WorkerOptions) {
  let pauseMillis = Bounds.providerRestartFirstMillis
  while (true) {
    const livedMillis = yield* live(kept, options)
    if (livedMillis >= Bounds.providerSteadyMillis) pauseMillis = Bounds.providerRestartFirstMillis
    yield* Effect.logWarning("a provider's worker has ended and will be started again").pipe(
      Effect.annotateLogs({ plugin: kept.files.pluginKey, why: kept.trouble, pauseMillis })
    )
    yield* Effect.sleep(pauseMillis)
    pauseMillis = Math.min(pauseMillis * 2, Bounds.providerRestartMillisMax)
  }
})

const isSame = (a: WorkerFiles, b: WorkerFiles): boolean =>
  a.folder === b.folder && a.worker === b.worker && a.pluginKey === b.pluginKey

const unmarked: Messages.Meta = {}

/** Every call of a provider goes through here, so it is made of no more steps than it has. */
const callOf =
  (running: (plugin: ProviderPluginId) => RunningWorker | undefined): ProviderWorkerManager["call"] =>
  (plugin, method, params, budgetMillis = Bounds.providerCallMillisDefault, logSink) =>
    Effect.contextWith((context: Context.Context<never>): Effect.Effect<unknown, CallError> => {
      const worker = running(plugin)
      if (worker === undefined) return Effect.fail(new ProviderCallFailed({ method, why: "not_running" }))
      const active = Context.get(context, ActiveStepContext)
      const meta = active === null ? unmarked : { traceparent: traceparentOf(active.parentContext) }
      return Effect.flatMap(
        worker.channel.request(method, params, { budgetMillis, logSink, meta }),
        ({ meta: { traceparent }, result }) =>
          traceparent === undefined
            ? Effect.succeed(result)
            : Effect.as(Effect.annotateCurrentSpan("provider.traceparent", traceparent), result)
      )
    })

/** Answers both services: what calls workers, and what says which are kept. All workers end with the scope. */
export const layer = (options: WorkerOptions): Layer.Layer<ProviderWorkers | WorkerKeeping> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const scope = yield* Scope.Scope
      const all = new Map<ProviderPluginId, Kept>()
      // A worker that has died may not have been seen off yet; it takes no calls any more.
      const running = (plugin: ProviderPluginId) => {
        const worker = all.get(plugin)?.running
        return worker?.channel.isOpen() === true ? worker : undefined
      }
      const drop = (plugin: ProviderPluginId, kept: Kept) => {
        all.delete(plugin)
        return kept.fiber === undefined ? Effect.void : Fiber.interrupt(kept.fiber)
      }
      const keep: WorkerKeeping["Service"]["keep"] = Effect.fnUntraced(function* (workers) {
        for (const [plugin, kept] of all) {
          const wanted = workers.find((each) => each.plugin === plugin)
          if (wanted === undefined || !isSame(wanted.files, kept.files)) yield* drop(plugin, kept)
        }
        for (const { files, plugin } of workers) {
          if (all.has(plugin)) continue
          const kept: Kept = { files, running: undefined, starts: 0, trouble: null, fiber: undefined }
          all.set(plugin, kept)
          kept.fiber = yield* Effect.forkIn(supervise(kept, options), scope)
        }
      })
      const standings = Effect.sync(() =>
        [...all].map(([plugin, { files, running: worker, starts, trouble }]) => ({
          plugin,
          pluginKey: files.pluginKey,
          pid: worker?.pid ?? null,
          starts,
          trouble
        }))
      )
      return Context.make(ProviderWorkers, {
        isRunning: (plugin) => running(plugin) !== undefined,
        getWorker: running,
        call: callOf(running)
      }).pipe(Context.add(WorkerKeeping, { keep, standings }))
    })
  )
