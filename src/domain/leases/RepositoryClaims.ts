/**
 * Port of the table of repository claims. It is made of standalone statements, each its own transaction: none takes
 * part in one, none waits for a lock, neither a runtime's nor that of a rival who has not committed.
 * Source: SP-LEASE-01, SP-LEASE-02.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { LeaseId, NodeId } from "../Identity.ts"
import type { OutsideTransaction, StorageFailure } from "../persistence/PluginDb.ts"
import type { LeaseLostReason } from "./Lease.ts"
import type { RenewalOutcome } from "./Register.ts"
import type { ObservedClaim, RepositoryClaim } from "./RepositoryClaim.ts"

/**
 * What became of a claim.
 * - `Held`: another one has the repository, since that time by the database's clock.
 * - `Contended`: a rival is claiming it at this moment; who, shows when it has committed.
 * - `Full`: the Project has `projectRepositoriesMax` claims. `Replaced`: the machine of that generation is no more.
 */
export type ClaimAnswer = Data.TaggedEnum<{
  Won: {}
  Held: { readonly process: string; readonly sinceMillis: number }
  Contended: {}
  Full: {}
  Replaced: {}
}>
export const ClaimAnswer = Data.taggedEnum<ClaimAnswer>()

/** A claim that its holder still means to keep. */
export interface KeptClaim {
  readonly claim: RepositoryClaim
  /** The term was not over when the heartbeat was sent: no successor can have come and gone, so the row may be brought back. */
  readonly restorable: boolean
}

/** Answers of `release`: deleted, or no longer this holder's. */
export type ReleasedClaim = "released" | "absent"

export class RepositoryClaims extends Context.Service<
  RepositoryClaims,
  {
    /** Claims the repository by its uniqueness: of all who ask at once one wins. Source: SP-LEASE-02, FC-10. */
    readonly claim: (claim: RepositoryClaim) => Effect.Effect<ClaimAnswer, StorageFailure>
    /**
     * Heartbeat repair, one statement for all claims of a process: renews its rows, brings back those that vanished,
     * and leaves alone a row of a successor, or one whose generation has ended. Source: SP-LEASE-04, SP-LEASE-07.
     */
    readonly renew: (
      process: string,
      kept: ReadonlyArray<KeptClaim>
    ) => Effect.Effect<ReadonlyArray<RenewalOutcome>, StorageFailure>
    /** Deletes the claim if its holder still has it. Source: SP-LEASE-03, FC-12. */
    readonly release: (claim: RepositoryClaim) => Effect.Effect<ReleasedClaim, StorageFailure>
    /** Why the claim cannot be used, by the table and the database's clock, or none where it can. */
    readonly whyUnusable: (
      claim: RepositoryClaim
    ) => Effect.Effect<Option.Option<LeaseLostReason>, StorageFailure>
    /** Claims of the node's processes, the longest silent first; at most `leaseInventoryMax`. */
    readonly inventory: (node: NodeId) => Effect.Effect<ReadonlyArray<ObservedClaim>, StorageFailure>
    /** Deletes those claims whose holder is still the one that was observed; answers which. Source: SP-LEASE-03. */
    readonly deleteObserved: (
      observed: ReadonlyArray<ObservedClaim>
    ) => Effect.Effect<ReadonlyArray<LeaseId>, StorageFailure>
  }
>()("holdfast/domain/leases/RepositoryClaims") {
  declare readonly [OutsideTransaction]: true
}
