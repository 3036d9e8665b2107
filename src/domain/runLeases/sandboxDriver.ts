/**
 * The driver `sandbox`: environments whose leases are resources of a sandbox provider, built in or a plugin's. A lease
 * lives from its row: recorded plugin, recorded config. Source: RL sections 4.1 to 4.4, RL 6.1 item 15.
 */
import * as Effect from "effect/Effect"
import { acquireSandboxLease } from "./acquisition.ts"
import { requireBackup } from "./backupGate.ts"
import { type DriverNeeds, driverNeeds } from "./DriverNeeds.ts"
import type { Destruction, EnvironmentDriver, LeaseInPlace } from "./EnvironmentDriver.ts"
import type { DriverMaker } from "./EnvironmentDrivers.ts"
import { executeInSandbox, leaseConfig } from "./execution.ts"
import { targetInUse } from "./leaseTarget.ts"
import { realizeInSandbox } from "./realization.ts"
import { resumeResource } from "./resumption.ts"
import { releaseSandboxLease } from "./release.ts"
import { DriverOperationMissing, SandboxLeasePreserved, TeardownUnconfirmed } from "./RunLeaseErrors.ts"
import { tearDown } from "./teardown.ts"

/** The resource again, outside an acquisition: nothing is written. Source: RL-REUSE-22. */
const resume = Effect.fnUntraced(function* (place: LeaseInPlace) {
  const { lease } = place
  const target = yield* targetInUse(lease)
  if (target._tag === "BuiltIn")
    return yield* new DriverOperationMissing({ driver: target.provider.key, operation: "resume" })
  const { entry, plugin, workers } = target
  const { recorded, resolved } = yield* leaseConfig(place, entry.configSchema)
  const answer = yield* resumeResource({
    workers,
    plugin: plugin.id,
    driverKey: entry.driverKey,
    lease,
    recordedConfig: recorded,
    resolved
  })
  if (answer._tag === "Gone" || lease.providerLeaseId === null)
    return yield* new SandboxLeasePreserved({ lease: lease.id, why: "the provider has lost it" })
  return { providerLeaseId: lease.providerLeaseId, metadata: answer.metadata }
})

/** Ends the resource by hand. A native runner's backup is asked for first. Source: RL section 3.6, U23. */
const destroy = Effect.fnUntraced(function* ({ ending, lease }: Destruction) {
  yield* requireBackup(lease)
  const outcome = yield* tearDown({
    lease,
    from: ["active", "failed", "released", "retained", "pending_cleanup"],
    refuseLiveRun: false,
    failureReason: ending?.reason ?? null,
    actor: ending?.actor ?? "caller"
  })
  return outcome._tag === "Ended" || outcome._tag === "Owed"
    ? outcome.lease
    : yield* new TeardownUnconfirmed({ lease: lease.id, why: "held" })
})

/** The driver over the lease table, the built-in providers and the workers of plugins. */
export const sandboxDriver: DriverMaker<DriverNeeds> = Effect.map(
  driverNeeds,
  (context): EnvironmentDriver => ({
    driver: "sandbox",
    acquireRunLease: (asked) => Effect.provideContext(acquireSandboxLease(asked), context),
    releaseRunLease: (asked) => Effect.provideContext(releaseSandboxLease(asked), context),
    resumeRunLease: (place) => Effect.provideContext(resume(place), context),
    destroyRunLease: (place) => Effect.provideContext(destroy(place), context),
    realizeWorkspace: (asked) => Effect.provideContext(realizeInSandbox(asked), context),
    execute: (asked) => Effect.provideContext(executeInSandbox(asked), context)
  })
)
