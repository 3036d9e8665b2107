/**
 * Ports of the stored sample of a runtime. `SampleStore` records samples, many in one statement; `SampleTargets` are
 * reads: what is to be sampled, under which generation and epoch, and what is stored. All of them stand alone.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Generation, NodeId, ProjectId, SandboxId } from "../Identity.ts"
import type { OutsideTransaction, StorageFailure } from "../persistence/PluginDb.ts"
import type { LatestSample } from "./MetricReading.ts"
import type { Sample } from "./Sample.ts"

/** What became of a batch. A Project in neither set had a stale sample, of which nothing was written. */
export interface RecordedSamples {
  readonly accepted: ReadonlySet<ProjectId>
  /** Somebody else holds the runtime's row: nothing was compared or written, offer it again. */
  readonly busy: ReadonlySet<ProjectId>
}

export class SampleStore extends Context.Service<
  SampleStore,
  {
    /**
     * Records samples of different Projects, at most `sampleBatchMax`, in one statement that never waits for a row.
     * Each is written if the runtime's generation and refresh epoch are those it was taken under and it began strictly
     * later than the stored one: latest figures, open minute and open hour together, and what it closed of both as
     * rows of the history. All of that or, when the statement fails, nothing of any of them. A metric without a figure
     * keeps its old value and is marked stale. Source: SP-RES-02 to SP-RES-05.
     */
    readonly recordMany: (samples: ReadonlyArray<Sample>) => Effect.Effect<RecordedSamples, StorageFailure>
  }
>()("holdfast/domain/sampling/SampleStore") {
  declare readonly [OutsideTransaction]: true
}

/** A running runtime, and what its sample will be compared with. */
export interface SampleTarget {
  readonly project: ProjectId
  readonly generation: Generation
  readonly refreshEpoch: number
  readonly sandbox: SandboxId
}

export class SampleTargets extends Context.Service<
  SampleTargets,
  {
    /** Runtimes observed running on the node, those first whose sample is oldest, and the database's clock. */
    readonly running: (
      node: NodeId
    ) => Effect.Effect<
      { readonly nowMillis: number; readonly targets: ReadonlyArray<SampleTarget> },
      StorageFailure
    >
    /** The stored sample of a runtime, or none before the first. */
    readonly latest: (project: ProjectId) => Effect.Effect<Option.Option<LatestSample>, StorageFailure>
  }
>()("holdfast/domain/sampling/SampleStore/SampleTargets") {
  declare readonly [OutsideTransaction]: true
}
