/**
 * What this process holds: the registers of its execution leases and of its repositories, which the heartbeat renews.
 * It performs nothing; execution.ts and repository.ts do.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import { executionLeaseSeconds, repositoryLeaseSeconds } from "../Bounds.ts"
import type { ProcessIdentity } from "../Identity.ts"
import { Processes } from "../Processes.ts"
import type { StorageFailure } from "../persistence/PluginDb.ts"
import type { CancelMarker, Lease } from "./Lease.ts"
import type { SettledLease } from "./LeaseStore.ts"
import { admitting, type Holding, makeRegister } from "./Register.ts"
import type { RepositoryClaim } from "./RepositoryClaim.ts"
import type { ReleasedClaim } from "./RepositoryClaims.ts"

/** An execution lease of this process. */
export interface HeldExecution extends Holding<SettledLease> {
  readonly lease: Lease
  cancel: CancelMarker
  /** Opens when a cancellation is known. */
  readonly cancelled: Latch.Latch
  /** The latest writing of the cancellation's intent. Source: SP-LEASE-05. */
  intent: Fiber.Fiber<unknown, StorageFailure> | null
}

/** A repository that this process works on. */
export interface HeldRepository extends Holding<ReleasedClaim> {
  readonly claim: RepositoryClaim
}

/** An execution whose admission is about to be sent. */
export const admittingExecution = (lease: Lease, sentAtNanos: bigint): HeldExecution => ({
  ...admitting(lease, sentAtNanos),
  lease,
  cancel: "none",
  cancelled: Latch.makeUnsafe(false),
  intent: null
})

/** A repository whose claim is about to be sent. */
export const claimingRepository = (claim: RepositoryClaim, sentAtNanos: bigint): HeldRepository => ({
  ...admitting(claim, sentAtNanos),
  claim
})

const makeHeldLeases = (process: ProcessIdentity) => ({
  process,
  /** The written form under which this process stands in rows. */
  written: process.toString(),
  executions: makeRegister<SettledLease, HeldExecution>(executionLeaseSeconds),
  repositories: makeRegister<ReleasedClaim, HeldRepository>(repositoryLeaseSeconds)
})

export class HeldLeases extends Context.Service<HeldLeases, ReturnType<typeof makeHeldLeases>>()(
  "holdfast/domain/leases/HeldLeases"
) {
  /** The registers of this process; one of each a running daemon. */
  static readonly layer: Layer.Layer<HeldLeases, never, Processes> = Layer.effect(
    HeldLeases,
    Processes.use((processes) => Effect.sync(() => makeHeldLeases(processes.current)))
  )
}
