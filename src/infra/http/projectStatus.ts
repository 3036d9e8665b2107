/**
 * What a Project's runtime is, does and used, gathered for the API. Reads only: nothing is provisioned, nothing
 * locked, no machine asked. Source: SP-HTTP-03.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { hourHistorySeconds, minuteHistorySeconds, receiptsKeptMin } from "../../domain/Bounds.ts"
import { metrics, type Resolution } from "../../domain/history/History.ts"
import { HistoryReader } from "../../domain/history/HistoryStore.ts"
import type { Project } from "../../domain/host/ProjectStore.ts"
import { LeaseStore } from "../../domain/leases/LeaseStore.ts"
import { OperationStore } from "../../domain/operations/OperationStore.ts"
import { Registry } from "../../domain/registry/Registry.ts"
import { SampleTargets } from "../../domain/sampling/SnapshotStore.ts"
import { answering } from "./access.ts"
import {
  chargesView,
  executionView,
  historyView,
  operationView,
  projectView,
  runtimeView
} from "./present.ts"
import type { StatusView } from "./Views.ts"

/** Runtime, live operation and receipts are of one snapshot; executions, sample and charges are read beside it. */
export const readStatus = Effect.fnUntraced(function* (project: Project) {
  const operations = yield* OperationStore
  const leases = yield* LeaseStore
  const samples = yield* SampleTargets
  const registry = yield* Registry
  const overview = yield* answering(operations.overview(project.id, receiptsKeptMin))
  const executions = yield* answering(leases.ofProject(project.id))
  const sample = yield* answering(samples.snapshot(project.id))
  const charges = yield* answering(registry.charges)
  const status: StatusView = {
    project: projectView(project),
    runtime: Option.getOrNull(Option.map(overview.runtime, runtimeView)),
    liveOperation: Option.getOrNull(Option.map(overview.live, operationView)),
    operations: overview.newest.map(operationView),
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

/** Both resolutions over all that is kept, up to the bucket that is being filled. */
export const readHistory = Effect.fnUntraced(function* (project: Project) {
  const reader = yield* HistoryReader
  const toMillis = (yield* Clock.currentTimeMillis) + 1
  const read = (resolution: Resolution) =>
    answering(
      reader.read(project.id, {
        metrics,
        resolution,
        fromMillis: toMillis - keptSeconds[resolution] * 1_000,
        toMillis
      })
    )
  return historyView(yield* read("minute"), yield* read("hour"))
})
