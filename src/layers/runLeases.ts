/**
 * What run leases are made of in this product: the stores, the lock of secrets, the drivers, the built-in providers, and the
 * workers of provider plugins. All of one installation's daemons share one label, which its database drew once, so that
 * each of them knows a resource of ours at every provider. Source: RL section 3.6, BX-01, FC-03.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ProjectStore } from "../domain/host/ProjectStore.ts"
import type { DriverMaker } from "../domain/runLeases/EnvironmentDrivers.ts"
import { EnvironmentRuntime } from "../domain/runLeases/EnvironmentRuntime.ts"
import { IdleWork } from "../domain/runLeases/IdleWork.ts"
import { localDriver } from "../domain/runLeases/localDriver.ts"
import { pluginDriver } from "../domain/runLeases/pluginDriver.ts"
import { RuntimeSettings } from "../domain/runLeases/RuntimeSettings.ts"
import { sandboxDriver } from "../domain/runLeases/sandboxDriver.ts"
import { sshDriver } from "../domain/runLeases/sshDriver.ts"
import { makeNodeProvider } from "../domain/providers/nodeProvider.ts"
import * as Digests from "../infra/Digests.ts"
import * as HarnessBackups from "../infra/filesystem/HarnessBackups.ts"
import * as OrphanSpool from "../infra/filesystem/OrphanSpool.ts"
import * as SecretCipher from "../infra/filesystem/SecretCipher.ts"
import * as WorkspaceArchives from "../infra/filesystem/WorkspaceArchives.ts"
import * as LocalCommands from "../infra/guests/LocalCommands.ts"
import * as DaemonRuns from "../infra/postgres/DaemonRuns.ts"
import * as EnvironmentLeaseStore from "../infra/postgres/EnvironmentLeaseStore.ts"
import * as EnvironmentStore from "../infra/postgres/EnvironmentStore.ts"
import * as LeaseCensus from "../infra/postgres/LeaseCensus.ts"
import * as ProviderPlugins from "../infra/postgres/ProviderPlugins.ts"
import * as SecretStore from "../infra/postgres/SecretStore.ts"
import * as WorkStore from "../infra/postgres/WorkStore.ts"
import * as BuiltInProviders from "../infra/providers/BuiltInProviders.ts"
import { makeFakeProvider } from "../infra/providers/fakeProvider.ts"
import * as ProviderWorkers from "../infra/providers/ProviderWorkers.ts"
import * as RemoteHosts from "../infra/providers/RemoteHosts.ts"
import type { DaemonSettings } from "./config.ts"

/** Every store of run leases, on the plugin's handle. */
const stores = Layer.mergeAll(
  WorkStore.layer,
  DaemonRuns.layer,
  EnvironmentStore.layer,
  EnvironmentLeaseStore.layer,
  LeaseCensus.layer,
  ProviderPlugins.layer,
  SecretStore.layer
)

/** The label of the installation at every provider: its own tenant's id, which the database keeps. */
const installation = Effect.map(
  Effect.flatMap(ProjectStore, ({ bootstrap }) => bootstrap),
  ({ tenant }) => `holdfast-${tenant}`
)

type RunLeaseSettings = Pick<
  DaemonSettings,
  "secretKeysPath" | "secretKey" | "orphanSpoolDirectory" | "hasFakeProvider"
>

const cipher = ({ secretKey, secretKeysPath: path }: RunLeaseSettings) =>
  SecretCipher.layer(secretKey === null ? { path } : { path, environmentKey: secretKey })

/** What this version carries itself; `fake` only for those who test against it. */
const builtIns = ({ hasFakeProvider }: RunLeaseSettings) =>
  Layer.unwrap(
    Effect.map(makeNodeProvider, (node) =>
      BuiltInProviders.layer(hasFakeProvider ? [node, makeFakeProvider().provider] : [node])
    )
  ).pipe(Layer.provide(WorkspaceArchives.layer))

/** The workers of installed plugins; which are kept is said by the reconciler. */
const workers = (label: string) => ProviderWorkers.layer({ installation: label })

/** Adapters of everything that a runtime needs beside its stores. */
const adapters = (settings: RunLeaseSettings, label: string) =>
  Layer.mergeAll(
    cipher(settings),
    builtIns(settings),
    workers(label),
    OrphanSpool.layerFromEnvironment({ otherwise: settings.orphanSpoolDirectory }),
    HarnessBackups.layerFromEnvironment,
    LocalCommands.layer,
    RemoteHosts.layer,
    WorkspaceArchives.layer,
    IdleWork.layer
  ).pipe(Layer.provideMerge(Digests.layer))

type Needs = Effect.Services<
  typeof localDriver | typeof sshDriver | typeof sandboxDriver | typeof pluginDriver
>

const drivers: ReadonlyArray<DriverMaker<Needs>> = [localDriver, sshDriver, sandboxDriver, pluginDriver]

/** The runtime with the default drivers, and the adapters that it stands on. */
export const layer = (settings: RunLeaseSettings) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const label = yield* installation
      const chosen = yield* RuntimeSettings
      return EnvironmentRuntime.layerOf(drivers).pipe(
        Layer.provideMerge(adapters(settings, label)),
        Layer.provideMerge(Layer.succeed(RuntimeSettings, { ...chosen, installation: label }))
      )
    })
  ).pipe(Layer.provideMerge(stores))
