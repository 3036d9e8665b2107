/**
 * Runtimes as the tests of run leases build them: each call makes a fresh one over the test's clone, as a process that has
 * started anew has it. What is not told is scripted so that nothing goes wrong.
 */
import { randomUUID } from "node:crypto"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { NodeId, ProcessIdentity } from "../../../src/domain/Identity.ts"
import { type Liveness, Processes } from "../../../src/domain/Processes.ts"
import type { BuiltInProvider } from "../../../src/domain/providers/BuiltInProviders.ts"
import { type ProviderWorkerManager, ProviderWorkers } from "../../../src/domain/providers/ProviderWorkers.ts"
import type { DriverNeeds } from "../../../src/domain/runLeases/DriverNeeds.ts"
import type { EnvironmentDriver } from "../../../src/domain/runLeases/EnvironmentDriver.ts"
import type { DriverMaker } from "../../../src/domain/runLeases/EnvironmentDrivers.ts"
import { EnvironmentRuntime } from "../../../src/domain/runLeases/EnvironmentRuntime.ts"
import { HarnessBackups } from "../../../src/domain/runLeases/HarnessBackups.ts"
import { IdleWork } from "../../../src/domain/runLeases/IdleWork.ts"
import { OrphanSpool } from "../../../src/domain/runLeases/OrphanSpool.ts"
import { pluginDriver } from "../../../src/domain/runLeases/pluginDriver.ts"
import { RuntimeSettings, type RuntimeSettingsShape } from "../../../src/domain/runLeases/RuntimeSettings.ts"
import { sandboxDriver } from "../../../src/domain/runLeases/sandboxDriver.ts"
import * as BuiltIns from "../../../src/infra/providers/BuiltInProviders.ts"

/** Looks once, tries once, writes again at once. */
export const settings: RuntimeSettingsShape = {
  providerWorkerReadyMillis: 0,
  providerWorkerReadyPollMillis: 1,
  resumeAttemptMillis: 0,
  pendingCleanupWritePauseMillis: 0,
  installation: "holdfast-test"
}

/** A spool that keeps nothing, as one whose folder cannot be written. Source: RL-SPOOL-04. */
export const noSpool: OrphanSpool["Service"] = {
  append: () => Effect.succeed(false),
  load: Effect.succeed([]),
  remove: () => Effect.void,
  quarantined: Effect.succeed(0)
}

export const processIdentity = new ProcessIdentity({
  daemon: randomUUID(),
  node: NodeId.make("00000000-0000-4000-8000-00000000000a"),
  bootId: "00000000-0000-4000-8000-00000000000b",
  pid: 4242,
  startTicks: "77"
})

export interface RuntimeParts {
  /** null: this process has no workers at all. */
  readonly workers?: ProviderWorkerManager | null
  readonly builtIns?: ReadonlyArray<BuiltInProvider>
  /** A custom driver takes the place of the default ones. */
  readonly drivers?: ReadonlyArray<EnvironmentDriver>
  readonly settings?: Partial<RuntimeSettingsShape>
  readonly spool?: OrphanSpool["Service"]
  /** The lease table as the runtime sees it; the clone's own unless told. */
  readonly leases?: EnvironmentLeaseStore["Service"]
  /** What this machine says of every process; alive unless told. */
  readonly liveness?: Liveness
  /** What the machine really says, in the place of that. */
  readonly processes?: Processes["Service"]
  readonly idle?: IdleWork["Service"]
  /** Which stamp of which provider lease verifies; none unless told. */
  readonly verifies?: (stamp: unknown, providerLeaseId: string) => boolean
}

const portsOf = (parts: RuntimeParts) =>
  Layer.mergeAll(
    Layer.succeed(ProviderWorkers, parts.workers ?? null),
    BuiltIns.layer(parts.builtIns ?? []),
    Layer.succeed(HarnessBackups, {
      verifies: (stamp, providerLeaseId) =>
        Effect.sync(() => parts.verifies?.(stamp, providerLeaseId) ?? false)
    }),
    Layer.succeed(OrphanSpool, parts.spool ?? noSpool),
    Layer.succeed(
      Processes,
      parts.processes ?? {
        current: processIdentity,
        liveness: () => Effect.succeed(parts.liveness ?? "alive")
      }
    ),
    Layer.effect(
      EnvironmentLeaseStore,
      Effect.map(EnvironmentLeaseStore, (store) => parts.leases ?? store)
    ),
    parts.idle === undefined ? IdleWork.layer : Layer.succeed(IdleWork, parts.idle),
    Layer.succeed(RuntimeSettings, { ...settings, ...parts.settings })
  )

/** A fresh runtime; it ends with the test's scope. */
export const freshRuntime = (parts: RuntimeParts = {}) => {
  const drivers: ReadonlyArray<DriverMaker<DriverNeeds>> = parts.drivers?.map((driver) =>
    Effect.succeed(driver)
  ) ?? [sandboxDriver, pluginDriver]
  const layer = EnvironmentRuntime.layerOf(drivers).pipe(Layer.provide(Layer.fresh(portsOf(parts))))
  return Effect.map(Layer.build(layer), Context.get(EnvironmentRuntime))
}

export interface LoggedLine {
  readonly level: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
  /** Everything that the line carries, for a search. */
  readonly text: string
}

/** A logger that keeps what is logged, fields and cause. */
export const capturedLog = () => {
  const lines: Array<LoggedLine> = []
  const logger = Logger.make(({ cause, fiber, logLevel, message }) => {
    const fields = fiber.getRef(References.CurrentLogAnnotations)
    const text = JSON.stringify([message, fields, cause])
    lines.push({ level: logLevel, message: String(message), fields, text })
  })
  return { lines, capture: Effect.provide(Logger.layer([logger])) }
}
