/**
 * A daemon as the release side of run leases sees it: what it was told of workers, built-in providers, backups, orphans and
 * drivers, over the stores of the test. Each use is a process of its own: nothing of an earlier one is remembered.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { type BuiltInProvider, BuiltInProviders } from "../../../src/domain/providers/BuiltInProviders.ts"
import { type ProviderWorkerManager, ProviderWorkers } from "../../../src/domain/providers/ProviderWorkers.ts"
import type { EnvironmentDriver, Release } from "../../../src/domain/runLeases/EnvironmentDriver.ts"
import { EnvironmentDrivers } from "../../../src/domain/runLeases/EnvironmentDrivers.ts"
import { HarnessBackups } from "../../../src/domain/runLeases/HarnessBackups.ts"
import { IdleWork } from "../../../src/domain/runLeases/IdleWork.ts"
import { OrphanBuffer } from "../../../src/domain/runLeases/OrphanBuffer.ts"
import { OrphanSpool, type OrphanSpoolUnreadable } from "../../../src/domain/runLeases/OrphanSpool.ts"
import { releaseSandboxLease } from "../../../src/domain/runLeases/release.ts"
import { sweepPendingCleanupLeases } from "../../../src/domain/runLeases/sweep.ts"
import { TraceParents } from "../../../src/domain/runLeases/TraceParents.ts"
import type { OrphanRecord } from "../../../src/domain/runLeases/OrphanSpool.ts"

export interface DaemonParts {
  readonly workers?: ProviderWorkerManager | null
  readonly builtIns?: ReadonlyArray<BuiltInProvider>
  /** Whether every backup verifies. */
  readonly hasBackups?: boolean
  /** Asked in the place of that. */
  readonly backups?: () => Effect.Effect<boolean>
  readonly spooled?: Effect.Effect<ReadonlyArray<OrphanRecord>, OrphanSpoolUnreadable>
  readonly drivers?: ReadonlyArray<EnvironmentDriver>
}

const refused = Effect.die(new Error("no acquisition belongs to this test"))

type ReleaseNeeds = Effect.Services<ReturnType<typeof releaseSandboxLease>>

/** The driver `sandbox` with its release alone. */
const sandbox = Effect.map(Effect.context<ReleaseNeeds>(), (context): EnvironmentDriver => ({
  driver: "sandbox",
  acquireRunLease: () => refused,
  releaseRunLease: (asked) => Effect.provideContext(releaseSandboxLease(asked), context)
}))

/** A driver whose release a test gives. */
export const driverOf = (
  driver: string,
  releaseRunLease: (asked: Release) => ReturnType<EnvironmentDriver["releaseRunLease"]>
): EnvironmentDriver => ({ driver, acquireRunLease: () => refused, releaseRunLease })

/** A driver that ends the row as it was asked, and nothing else. */
export const plainDriver = (driver: string, store: EnvironmentLeaseStore["Service"]): EnvironmentDriver =>
  driverOf(driver, ({ lease, status }) =>
    Effect.map(
      store.releaseLease(lease.id, { status, failureReason: null, cleanupStatus: "success", actor: "run" }),
      Option.getOrNull
    )
  )

const layerOf = ({
  backups,
  builtIns = [],
  drivers = [],
  hasBackups = false,
  spooled,
  workers = null
}: DaemonParts) => {
  const parts = Layer.mergeAll(
    Layer.succeed(ProviderWorkers, workers),
    Layer.succeed(BuiltInProviders, { find: (key) => builtIns.find((each) => each.key === key) }),
    Layer.succeed(HarnessBackups, { verifies: backups ?? (() => Effect.succeed(hasBackups)) }),
    Layer.succeed(OrphanSpool, {
      append: () => Effect.succeed(true),
      load: spooled ?? Effect.succeed([]),
      remove: () => Effect.void,
      quarantined: Effect.succeed(0)
    }),
    TraceParents.layer,
    OrphanBuffer.layer.pipe(Layer.provideMerge(IdleWork.layer))
  )
  return EnvironmentDrivers.layerOf([sandbox, ...drivers.map((driver) => Effect.succeed(driver))]).pipe(
    Layer.provideMerge(parts)
  )
}

/** Runs the effect in a daemon that has just begun. */
export const inDaemon =
  (parts: DaemonParts) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.provide(effect, Layer.fresh(layerOf(parts)))

/** One sweep with no back-off, by a daemon that has just begun. */
export const sweepIn = (parts: DaemonParts) =>
  inDaemon(parts)(sweepPendingCleanupLeases({ backoffMillis: 0 }))

/** The lease as its store reads it now. */
export const leaseNow = (lease: EnvironmentLeaseId) =>
  EnvironmentLeaseStore.use((store) => store.getLeaseById(lease)).pipe(Effect.map(Option.getOrThrow))
