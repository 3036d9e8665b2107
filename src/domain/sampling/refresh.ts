/**
 * Recording one sample: validate, then in one transaction compare and set the snapshot and, only where that moved,
 * append minute and hour on the same handle. A sample that comes too late writes nothing at all.
 */
import * as Effect from "effect/Effect"
import { HistoryStore } from "../history/HistoryStore.ts"
import type { ProjectId } from "../Identity.ts"
import { PluginDb } from "../persistence/PluginDb.ts"
import { type Sample, type SampleCandidate, SampleStale, validateSample } from "./Sample.ts"
import { SnapshotStore } from "./SnapshotStore.ts"

const write = Effect.fnUntraced(function* (sample: Sample) {
  const snapshots = yield* SnapshotStore
  const history = yield* HistoryStore
  if (!(yield* snapshots.compareAndSet(sample))) {
    const { generation, project, refreshEpoch } = sample
    return yield* new SampleStale({ project, generation, refreshEpoch })
  }
  yield* history.append(sample.project, sample.startedAtMillis, sample.measured)
})

/**
 * Records a sample of a runtime. Refused with `SampleRefused` before a transaction opens, with `SampleStale` when a
 * newer generation, epoch or sample is stored. A failure rolls snapshot and history back together.
 * Source: SP-RES-01 to SP-RES-04.
 */
export const recordSample = Effect.fn("sampling.recordSample")(function* (
  project: ProjectId,
  candidate: SampleCandidate
) {
  const sample = yield* Effect.fromResult(validateSample(project, candidate))
  const db = yield* PluginDb
  yield* db.transaction("sampling.recordSample", write(sample))
})
