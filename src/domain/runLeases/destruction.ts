/**
 * Destroying what reusable leases keep alive once what they were for is over: of a task, of a workspace, or of a whole
 * environment. The claim comes first, and with it the check that no live run holds the lease; what cannot be destroyed at
 * once stays owed. Source: RL section 4.5, RL-FENCE-01, U18, U22, U23.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { EnvironmentLease, EnvironmentLeaseStatus } from "../environments/EnvironmentLease.ts"
import { type DestructionScope, EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import type { EnvironmentId } from "../Identity.ts"
import { isRunLive } from "../work/Work.ts"
import { WorkStore } from "../work/WorkStore.ts"
import { requireBackup } from "./backupGate.ts"
import { tearDown } from "./teardown.ts"

/** Every status that is not over: what is owed already is taken up again under the newer reason. */
const unfinished: ReadonlyArray<EnvironmentLeaseStatus> = [
  "active",
  "failed",
  "released",
  "retained",
  "pending_cleanup"
]

/** What one destruction came to; `kept`: a native runner without a proved backup, whose row is as it was. */
type Fate =
  | { readonly _tag: "claimed"; readonly lease: EnvironmentLease }
  | { readonly _tag: "kept" | "left" }

/** Destroys what one lease has, unless its run is live or somebody else is at it. */
export const destroyLease = Effect.fnUntraced(function* (
  lease: EnvironmentLease,
  failureReason: string | null,
  actor: string
) {
  const isKept = yield* Effect.isFailure(requireBackup(lease))
  if (isKept) return { _tag: "kept" } satisfies Fate as Fate
  const outcome = yield* tearDown({ lease, from: unfinished, refuseLiveRun: true, failureReason, actor })
  return outcome._tag === "Ended" || outcome._tag === "Owed"
    ? ({ _tag: "claimed", lease: outcome.lease } satisfies Fate as Fate)
    : ({ _tag: "left" } satisfies Fate as Fate)
})

/**
 * Destroys the tenant's reusable leases of a task or of a workspace. Answers one entry for each lease that it claimed, as
 * the row is now: `expired`, or `pending_cleanup` where the provider could not do it yet. A foreign tenant has none.
 */
export const destroyReusableSandboxLeases = Effect.fn("runLeases.destroyReusable")(function* (
  scope: DestructionScope,
  failureReason = "reusable_lease_closed"
) {
  const leases = yield* EnvironmentLeaseStore.use((store) => store.destroyable(scope))
  const fates = yield* Effect.forEach(leases, (lease) => destroyLease(lease, failureReason, "scope"))
  return fates.flatMap((fate) => (fate._tag === "claimed" ? [{ lease: fate.lease }] : []))
})

const isHeldByLiveRun = ({ run, tenant }: EnvironmentLease) =>
  run === null
    ? Effect.succeed(false)
    : WorkStore.use((work) => work.runById(tenant, run)).pipe(
        Effect.map(Option.exists(({ status }) => isRunLive(status)))
      )

/** An ephemeral lease is ended by its own run, or found by the sweep when that is over. */
const isKeptAlive = ({ policy, status }: EnvironmentLease): boolean =>
  policy === "reuse_by_environment" || status === "retained"

/**
 * Destroys what an environment's leases keep alive, so that it can be deleted. A lease of a live run is left, and blocks
 * the deletion on; one that somebody else is at is counted nowhere.
 */
export const destroyReusableSandboxLeasesForEnvironment = Effect.fn("runLeases.destroyOfEnvironment")(
  function* (environment: EnvironmentId, failureReason = "environment_deleted") {
    const leases = yield* EnvironmentLeaseStore.use((store) => store.unfinishedOf(environment))
    const counts = { destroyed: 0, failed: 0, skippedLiveRun: 0 }
    for (const lease of leases.filter(isKeptAlive)) {
      if (yield* isHeldByLiveRun(lease)) {
        counts.skippedLiveRun += 1
        continue
      }
      const fate = yield* destroyLease(lease, failureReason, "environment")
      if (fate._tag === "kept") counts.failed += 1
      else if (fate._tag === "claimed") counts[fate.lease.status === "expired" ? "destroyed" : "failed"] += 1
      else if (yield* isHeldByLiveRun(lease)) counts.skippedLiveRun += 1
    }
    return counts
  }
)
