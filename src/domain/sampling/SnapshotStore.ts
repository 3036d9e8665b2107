/**
 * Ports of the stored sample of a runtime. `SnapshotStore` compares and sets inside a transaction; `SampleTargets`
 * are standalone reads: what is to be sampled, under which generation and epoch, and what is stored.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Generation, NodeId, ProjectId, SandboxId } from "../Identity.ts"
import type {
  OutsideTransaction,
  PluginTx,
  StorageFailure,
  TransactionEnded
} from "../persistence/PluginDb.ts"
import type { Sample, Snapshot } from "./Sample.ts"

export class SnapshotStore extends Context.Service<
  SnapshotStore,
  {
    /**
     * Writes the sample if the runtime's generation and refresh epoch are those it was taken under and it began
     * strictly later than the stored one; answers whether it did. The epoch grows in every write of the runtime after
     * which its machine is observed as something else, so that a sample under way then becomes stale. A metric without a figure keeps its old value and
     * is marked stale. Source: SP-RES-02, SP-RES-04.
     */
    readonly compareAndSet: (
      sample: Sample
    ) => Effect.Effect<boolean, StorageFailure | TransactionEnded, PluginTx>
  }
>()("holdfast/domain/sampling/SnapshotStore") {}

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
    readonly snapshot: (project: ProjectId) => Effect.Effect<Option.Option<Snapshot>, StorageFailure>
  }
>()("holdfast/domain/sampling/SnapshotStore/SampleTargets") {
  declare readonly [OutsideTransaction]: true
}
