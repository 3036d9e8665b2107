/**
 * Port of the admission of an execution lease: the two statements that take part in a transaction, since the runtime
 * must not be replaced while a lease on it is written. Everything else about leases is standalone, LeaseStore.ts.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Generation, ProjectId, SandboxId } from "../Identity.ts"
import type { PluginTx, StorageFailure, TransactionEnded } from "../persistence/PluginDb.ts"
import type { RuntimeObserved } from "../runtimes/Runtime.ts"
import type { Lease } from "./Lease.ts"

/** The runtime as an admission sees it, its row held FOR SHARE. */
export interface HeldRuntime {
  readonly generation: Generation
  readonly observed: RuntimeObserved
  readonly sandbox: SandboxId | null
}

export class LeaseAdmission extends Context.Service<
  LeaseAdmission,
  {
    /** Holds the runtime's row FOR SHARE until the transaction ends, so that it is not replaced meanwhile. */
    readonly holdRuntime: (
      project: ProjectId
    ) => Effect.Effect<Option.Option<HeldRuntime>, StorageFailure | TransactionEnded, PluginTx>
    /** Answers false, and writes nothing, where the Project has `projectLeasesMax` rows already. Source: FC-15. */
    readonly insert: (lease: Lease) => Effect.Effect<boolean, StorageFailure | TransactionEnded, PluginTx>
  }
>()("holdfast/domain/leases/LeaseAdmission") {}
