/**
 * What a Project's runtime is, does and used, gathered for the API. Reads only: nothing is provisioned, nothing
 * locked, no guest asked; the machine is asked only who carries the guest. Source: SP-HTTP-03.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { hourHistorySeconds, minuteHistorySeconds, receiptsKeptMin } from "../../domain/Bounds.ts"
import { GuestSupervisor } from "../../domain/guests/GuestSupervisor.ts"
import { type Metric, metrics, type Resolution } from "../../domain/history/History.ts"
import { readHistory } from "../../domain/history/maintenance.ts"
import type { Project } from "../../domain/host/ProjectStore.ts"
import { LeaseStore } from "../../domain/leases/LeaseStore.ts"
import { OperationStore } from "../../domain/operations/OperationStore.ts"
import { Registry } from "../../domain/registry/Registry.ts"
import type { Runtime } from "../../domain/runtimes/Runtime.ts"
import { SampleTargets } from "../../domain/sampling/SampleStore.ts"
import { answering } from "./access.ts"
import { chargesView, executionView, historyView, projectView, runtimeView } from "./present.ts"
import { operationViews } from "./operationViews.ts"
import type { StatusView } from "./Views.ts"

/**
 * Who carries the runtime's guest, by the identity of the guest that lives. None where it is another node's, or
 * nothing certain was seen: a status never fails for that.
 */
const readCarrier = Effect.fnUntraced(function* (runtime: Runtime) {
  const registry = yield* Registry
  if (runtime.sandbox === null || runtime.recipe?.node !== registry.node) return null
  const seen = Option.getOrNull(yield* Effect.option((yield* GuestSupervisor).inspect(runtime.sandbox)))
  return seen?._tag === "Running" || seen?._tag === "Paused" ? seen.identity.supervisor : null
})

/** Runtime, live operation and receipts are of one snapshot; executions, sample and charges are read beside it. */
export const readStatus = Effect.fnUntraced(function* (project: Project) {
  const operations = yield* OperationStore
  const leases = yield* LeaseStore
  const samples = yield* SampleTargets
  const registry = yield* Registry
  const overview = yield* answering(operations.overview(project.id, receiptsKeptMin))
  const shown = yield* operationViews([...Option.toArray(overview.live), ...overview.newest])
  const executions = yield* answering(leases.ofProject(project.id))
  const sample = yield* answering(samples.latest(project.id))
  const charges = yield* answering(registry.charges)
  const runtime = Option.getOrNull(overview.runtime)
  const status: StatusView = {
    project: projectView(project),
    runtime: runtime === null ? null : runtimeView(runtime, yield* readCarrier(runtime)),
    liveOperation: Option.isSome(overview.live) ? (shown[0] ?? null) : null,
    operations: shown.slice(shown.length - overview.newest.length),
    executions: executions.map(executionView),
    sample: Option.getOrNull(
      Option.map(sample, ({ readings, startedAtMillis }) => ({ startedAtMillis, metrics: readings }))
    ),
    charges: chargesView(charges, registry.capacity)
  }
  return status
})

const keptSeconds: Readonly<Record<Resolution, number>> = {
  minute: minuteHistorySeconds,
  hour: hourHistorySeconds
}

/** What of a history is asked for; what is left out is all of it. */
export interface HistoryAsked {
  readonly metric?: Metric
  readonly resolution?: Resolution
  readonly fromMillis?: number
  readonly toMillis?: number
}

/** Over all that is kept unless told otherwise, up to the bucket that is being filled. */
export const historyOf = Effect.fnUntraced(function* (project: Project, asked: HistoryAsked) {
  const toMillis = asked.toMillis ?? (yield* Clock.currentTimeMillis) + 1
  const read = (resolution: Resolution) =>
    asked.resolution !== undefined && asked.resolution !== resolution
      ? Effect.succeed([])
      : answering(
          readHistory(project.id, {
            metrics: asked.metric === undefined ? metrics : [asked.metric],
            resolution,
            fromMillis: asked.fromMillis ?? toMillis - keptSeconds[resolution] * 1_000,
            toMillis
          })
        )
  return historyView(yield* read("minute"), yield* read("hour"))
})
