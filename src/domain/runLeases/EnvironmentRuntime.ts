/**
 * The environment runtime: what runs ask of the environments that they lease, whatever driver carries them. Each one that
 * is built has a memory of its own: orphans that have no row yet, the traces that commands ran in, and acquisitions that
 * are shared. Source: RL section 3.6.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Capabilities } from "../environments/capabilities.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import type { DestructionScope } from "../environments/EnvironmentLeaseStore.ts"
import type { AgentId, EnvironmentId, ExecutionWorkspaceId, RunId, TenantId } from "../Identity.ts"
import type { OutsideTransaction, StorageError, StorageFailure } from "../persistence/PluginDb.ts"
import type { CommandResult } from "../providers/BuiltInProviders.ts"
import { acquireOnce } from "./acquisitionKey.ts"
import { stopInvocationsForAgents } from "./agentStop.ts"
import { resolveCapabilities } from "./capabilityReading.ts"
import { recoverLostCreations } from "./creationRecovery.ts"
import { destroyReusableSandboxLeases, destroyReusableSandboxLeasesForEnvironment } from "./destruction.ts"
import { type DriverNeeds, driverNeeds } from "./DriverNeeds.ts"
import type {
  Acquisition,
  Destruction,
  EnvironmentDriver,
  Execution,
  LeaseInPlace,
  RealizedWorkspace,
  Workspace
} from "./EnvironmentDriver.ts"
import { type DriverMaker, EnvironmentDrivers } from "./EnvironmentDrivers.ts"
import { LostCreations } from "./LostCreations.ts"
import { OrphanBuffer } from "./OrphanBuffer.ts"
import type { OrphanSpoolUnreadable } from "./OrphanSpool.ts"
import { flushDeferredOrphans } from "./orphans.ts"
import { isPendingCleanupWorkerReady } from "./providerTargets.ts"
import { quietSpan, type SpanFields } from "./quietSpan.ts"
import { DriverOperationMissing, EnvironmentDriverUnregistered } from "./RunLeaseErrors.ts"
import { resolveRunnerEnvironmentForRun } from "./runnerOverlay.ts"
import { type ReleasedLease, releaseRunLeases, type RunRelease } from "./runRelease.ts"
import { SharedAcquisitions } from "./SharedAcquisitions.ts"
import type { SweepCount } from "../SweepReports.ts"
import { remoteExecutionHasStopped } from "./stopEvidence.ts"
import { sweepCleanups } from "./sweep.ts"
import { retryPendingSandboxTeardown } from "./teardown.ts"
import { TraceParents } from "./TraceParents.ts"

export interface AcquiredLease {
  readonly lease: EnvironmentLease
  readonly leaseContext: {
    readonly executionWorkspaceId: ExecutionWorkspaceId | null
    readonly executionWorkspaceMode: string | null
  }
}

/** Methods fail with the typed errors of RunLeaseErrors.ts and of the stores, or with a provider's very error object. */
export interface EnvironmentRuntimeShape {
  /** A lease for the run: what it holds, what it may come back to, or a fresh one. Source: RL sections 4.1, 4.2. */
  readonly acquireRunLease: (asked: Acquisition) => Effect.Effect<AcquiredLease, Error>
  /** The resource of a lease again, outside an acquisition; the row stays as it is. Source: RL-REUSE-22. */
  readonly resumeRunLease: (
    place: LeaseInPlace
  ) => ReturnType<NonNullable<EnvironmentDriver["resumeRunLease"]>>
  readonly realizeWorkspace: (
    asked: LeaseInPlace & { readonly workspace: Workspace }
  ) => Effect.Effect<RealizedWorkspace, Error>
  readonly execute: (asked: Execution) => Effect.Effect<CommandResult, Error>
  readonly destroyRunLease: (asked: Destruction) => Effect.Effect<EnvironmentLease, Error>
  /** Releases what the run holds; `onError` is told of each lease that could not be. Source: RL section 4.3. */
  readonly releaseRunLeases: (
    run: RunId,
    how?: RunRelease
  ) => Effect.Effect<ReadonlyArray<ReleasedLease>, StorageError>
  /** Destroys what a task or a workspace kept alive. Source: RL-DESTROY-01 to -04, -08. */
  readonly destroyReusableSandboxLeases: (
    scope: DestructionScope & { readonly failureReason?: string }
  ) => Effect.Effect<ReadonlyArray<{ readonly lease: EnvironmentLease }>, StorageError>
  /** Destroys what an environment kept alive, so that it can be deleted. Source: RL-DESTROY-05 to -07. */
  readonly destroyReusableSandboxLeasesForEnvironment: (asked: {
    readonly environment: EnvironmentId
    readonly failureReason?: string
  }) => Effect.Effect<
    { readonly destroyed: number; readonly failed: number; readonly skippedLiveRun: number },
    StorageError
  >
  /** What may be asked of the lease's sandbox now. Source: RL section 4.13. */
  readonly resolveCapabilities: (lease: EnvironmentLease) => Effect.Effect<Capabilities, StorageFailure>
  /** Asks the provider once more for what a pending row owes; writes no status. Source: RL-ORPHAN-12 to -15. */
  readonly retryPendingSandboxTeardown: (lease: EnvironmentLease) => Effect.Effect<unknown, Error>
  /** Whether what the lease owes could be sent now; never calls the provider. Source: RL-SWEEP-03. */
  readonly isPendingCleanupWorkerReady: (lease: EnvironmentLease) => Effect.Effect<boolean, Error>
  /** Finds what was created by acquisitions that never got their answers. Source: FC-02, BX-01. */
  readonly recoverLostCreations: Effect.Effect<
    { readonly found: number; readonly dropped: number; readonly waiting: number },
    StorageError
  >
  /** Makes rows of the orphans that are remembered beside the database. Source: RL-SPOOL-01. */
  readonly flushDeferredOrphanCleanups: Effect.Effect<
    { readonly recovered: number; readonly pending: number },
    OrphanSpoolUnreadable
  >
  /** One pass of the cleanup sweep, with what this runtime remembers. Source: RL section 4.12, FC-05. */
  readonly sweepCleanups: (backoffMillis: number) => Effect.Effect<SweepCount, StorageError>
  /** Ends the agents' live runs and what is kept for them; true when nothing of it is owed. Source: RL-DESTROY-09. */
  readonly stopInvocationsForAgents: (
    agents: ReadonlyArray<AgentId>,
    reason: string
  ) => Effect.Effect<boolean, StorageError>
  /** Whether everything that the run executed at providers has stopped, by evidence. Source: RL-STOP-03. */
  readonly remoteExecutionHasStopped: (tenant: TenantId, run: RunId) => Effect.Effect<boolean, StorageError>
}

/** The driver of that name; nothing is done in the place of one that is not there. Source: RL-ACQ-02. */
const driverNamed = Effect.fnUntraced(function* (driver: string) {
  const found = (yield* EnvironmentDrivers).find(driver)
  return found ?? (yield* new EnvironmentDriverUnregistered({ driver }))
})

/** A lease stays with the driver that it records, whatever its environment has become. Source: RL-DRIVER-01. */
const driverOf = ({ environment, lease }: LeaseInPlace) => {
  const recorded = lease.metadata["driver"]
  return driverNamed(typeof recorded === "string" ? recorded : environment.driver)
}

type Operations = Required<EnvironmentDriver>

/** An operation of the lease's driver, or the refusal that it has none. */
const operationOf = Effect.fnUntraced(function* <
  Name extends "destroyRunLease" | "execute" | "realizeWorkspace" | "resumeRunLease"
>(place: LeaseInPlace, name: Name, operation: DriverOperationMissing["operation"]) {
  const driver = yield* driverOf(place)
  const found = driver[name] as Operations[Name] | undefined
  return found ?? (yield* new DriverOperationMissing({ driver: driver.driver, operation }))
})

/** The request with the environment as its run sees it. Source: RL-REUSE-07. */
const overlaid = (asked: Acquisition): Acquisition => {
  const { adapterType, environment, lifecycle } = asked
  return lifecycle === undefined
    ? asked
    : {
        ...asked,
        environment: resolveRunnerEnvironmentForRun(environment, adapterType ?? null, lifecycle)
      }
}

const acquire = Effect.fnUntraced(function* (request: Acquisition) {
  const asked = overlaid(request)
  const { environment, executionWorkspace } = asked
  const driver = yield* driverNamed(environment.driver)
  const lease = yield* acquireOnce(asked, driver.acquireRunLease)
  const answer: AcquiredLease = {
    lease,
    leaseContext: {
      executionWorkspaceId: lease.executionWorkspace,
      executionWorkspaceMode: executionWorkspace?.mode ?? null
    }
  }
  return answer
})

const acquisitionFields = ({ environment, run, tenant }: Acquisition): SpanFields => ({
  tenant,
  environment: environment.id,
  run,
  driver: environment.driver
})

const placeFields = ({ environment, lease }: LeaseInPlace): SpanFields => ({
  tenant: lease.tenant,
  environment: environment.id,
  lease: lease.id,
  provider: lease.provider,
  run: lease.run
})

type Needs = DriverNeeds | EnvironmentDrivers | SharedAcquisitions

const makeRuntime = Effect.gen(function* () {
  const context = Context.merge(
    yield* driverNeeds,
    Context.pick(
      EnvironmentDrivers,
      SharedAcquisitions
    )(yield* Effect.context<EnvironmentDrivers | SharedAcquisitions>())
  )
  const within = <A, E>(effect: Effect.Effect<A, E, Needs>): Effect.Effect<A, E> =>
    Effect.provideContext(effect, context)
  const about =
    (verb: DriverOperationMissing["operation"], place: LeaseInPlace) =>
    <A, E>(effect: Effect.Effect<A, E, Needs>): Effect.Effect<A, E> =>
      within(quietSpan(`runLeases.${verb}`, placeFields(place))(effect))
  const shape: EnvironmentRuntimeShape = {
    acquireRunLease: (asked) =>
      within(quietSpan("runLeases.acquire", acquisitionFields(asked))(acquire(asked))),
    resumeRunLease: (place) =>
      about(
        "resume",
        place
      )(Effect.flatMap(operationOf(place, "resumeRunLease", "resume"), (resume) => resume(place))),
    realizeWorkspace: (asked) =>
      about(
        "realize",
        asked
      )(Effect.flatMap(operationOf(asked, "realizeWorkspace", "realize"), (realize) => realize(asked))),
    execute: (asked) =>
      about(
        "execute",
        asked
      )(Effect.flatMap(operationOf(asked, "execute", "execute"), (execute) => execute(asked))),
    destroyRunLease: (place) =>
      about(
        "destroy",
        place
      )(Effect.flatMap(operationOf(place, "destroyRunLease", "destroy"), (destroy) => destroy(place))),
    releaseRunLeases: (run, how) => within(releaseRunLeases(run, how)),
    destroyReusableSandboxLeases: ({ failureReason, ...scope }) =>
      within(destroyReusableSandboxLeases(scope, failureReason)),
    destroyReusableSandboxLeasesForEnvironment: ({ environment, failureReason }) =>
      within(destroyReusableSandboxLeasesForEnvironment(environment, failureReason)),
    resolveCapabilities: (lease) => within(resolveCapabilities(lease)),
    retryPendingSandboxTeardown: (lease) => within(retryPendingSandboxTeardown(lease)),
    isPendingCleanupWorkerReady: (lease) => within(isPendingCleanupWorkerReady(lease)),
    recoverLostCreations: within(recoverLostCreations()),
    flushDeferredOrphanCleanups: within(flushDeferredOrphans()),
    sweepCleanups: (backoffMillis) => within(sweepCleanups(backoffMillis)),
    stopInvocationsForAgents: (agents, reason) => within(stopInvocationsForAgents(agents, reason)),
    remoteExecutionHasStopped: (tenant, run) => within(remoteExecutionHasStopped(tenant, run))
  }
  return shape
})

export class EnvironmentRuntime extends Context.Service<EnvironmentRuntime, EnvironmentRuntimeShape>()(
  "holdfast/domain/runLeases/EnvironmentRuntime"
) {
  declare readonly [OutsideTransaction]: true

  /**
   * A runtime with these drivers and no others. Each building of it has a memory of its own, also where several are built
   * from one value. Source: RL-DRIVER-06.
   */
  static readonly layerOf = <R>(drivers: ReadonlyArray<DriverMaker<R>>) => {
    const memory = Layer.mergeAll(
      OrphanBuffer.layer,
      TraceParents.layer,
      SharedAcquisitions.layer,
      LostCreations.layer
    )
    return Layer.effect(EnvironmentRuntime, makeRuntime).pipe(
      Layer.provide(EnvironmentDrivers.layerOf(drivers)),
      Layer.provide(memory),
      Layer.fresh
    )
  }
}
