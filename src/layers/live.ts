/**
 * Every port filled with the product's own adapters. What has to happen in an order (the state directory first, then
 * the database, migrations, the registry) is the daemon's business; here everything is given.
 */
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { SupervisorKind } from "../domain/guests/GuestSpec.ts"
import { ProjectStore } from "../domain/host/ProjectStore.ts"
import { OperationAlerts } from "../domain/operations/admission.ts"
import type { ProjectId } from "../domain/Identity.ts"
import { type NodeCapacity, Registry } from "../domain/registry/Registry.ts"
import { makeRegistry } from "../domain/registry/makeRegistry.ts"
import { openRegistry } from "../domain/registry/openRegistry.ts"
import { SandboxPaths } from "../domain/removal/RemovalPlan.ts"
import * as Disks from "../infra/filesystem/Disks.ts"
import * as RegistryFiles from "../infra/filesystem/RegistryFiles.ts"
import * as WorkspaceCopies from "../infra/filesystem/WorkspaceCopies.ts"
import * as RunState from "../infra/filesystem/RunState.ts"
import * as Supervisor from "../infra/guests/processSupervisor.ts"
import * as Identifiers from "../infra/Identifiers.ts"
import * as DeletionStore from "../infra/postgres/DeletionStore.ts"
import * as HistoryStore from "../infra/postgres/HistoryStore.ts"
import * as HostAccounts from "../infra/postgres/HostAccounts.ts"
import * as HostProjects from "../infra/postgres/HostProjects.ts"
import * as InstalledPlugins from "../infra/postgres/InstalledPlugins.ts"
import * as LeaseAdmission from "../infra/postgres/LeaseAdmission.ts"
import * as LeaseStore from "../infra/postgres/LeaseStore.ts"
import * as OperationRows from "../infra/postgres/OperationRows.ts"
import * as OperationStore from "../infra/postgres/OperationStore.ts"
import * as ProjectStoreAdapter from "../infra/postgres/ProjectStore.ts"
import * as AutoRecoveryStore from "../infra/postgres/AutoRecoveryStore.ts"
import * as RemovalRecords from "../infra/postgres/RemovalRecords.ts"
import * as RepositoryClaims from "../infra/postgres/RepositoryClaims.ts"
import * as RuntimeLog from "../infra/postgres/RuntimeLog.ts"
import * as RuntimeStore from "../infra/postgres/RuntimeStore.ts"
import * as SampleStore from "../infra/postgres/SampleStore.ts"
import * as SnapshotRows from "../infra/postgres/SnapshotRows.ts"
import * as WorktreeRows from "../infra/postgres/WorktreeRows.ts"
import * as Processes from "../infra/Processes.ts"

/** The host's stores, on the plugin's handle: they name the host's schema themselves. */
export const host = Layer.mergeAll(
  ProjectStoreAdapter.layer,
  DeletionStore.layer,
  InstalledPlugins.layer
).pipe(Layer.provideMerge(Layer.mergeAll(HostAccounts.layer, HostProjects.layer, Identifiers.layer)))

/** The node's registry, opened. Refused with `RegistryOpenRefused`. */
export const registry = (options: { readonly stateDirectory: string; readonly capacity: NodeCapacity }) =>
  Layer.effect(
    Registry,
    Effect.flatMap(openRegistry(), (opened) => makeRegistry(opened, options.capacity))
  ).pipe(Layer.provide(Layer.mergeAll(RegistryFiles.layer(options.stateDirectory), Identifiers.layer)))

/** What this machine carries: guests, their private state, disks, and who is alive. Needs the registry's node id. */
export const machine = (options: {
  readonly stateDirectory: string
  readonly supervisor: "auto" | SupervisorKind
}) => {
  const { stateDirectory } = options
  return Layer.mergeAll(
    Supervisor.layer({ stateDirectory, kind: options.supervisor }),
    RunState.layer({ stateDirectory }),
    WorkspaceCopies.layer().pipe(Layer.provideMerge(Disks.layer({ stateDirectory }))),
    Layer.succeed(SandboxPaths, { pathOf: (sandbox) => Path.join(stateDirectory, "runtime", sandbox) }),
    Layer.unwrap(Effect.map(Registry, ({ node }) => Processes.layer(node)))
  ).pipe(Layer.provideMerge(Identifiers.layer))
}

/** Alerts of refused starts go to the host. One that cannot be raised must not hide the refusal. */
const alerts = Layer.effect(
  OperationAlerts,
  Effect.map(ProjectStore, (projects) => {
    const raise = (project: ProjectId, kind: string, message: string) =>
      projects
        .raiseAlert({ project, kind, message })
        .pipe(Effect.catch((failure) => Effect.logWarning(`an alert was not raised: ${failure.message}`)))
    return {
      startRefused: ({ action, code, message, project }) =>
        raise(project, `${action}_refused`, `${code}: ${message}`),
      recoveriesFail: ({ attempts, project }) =>
        raise(
          project,
          "recovery_fails",
          `${attempts} automatic recoveries have not brought the machine up; they go on`
        )
    }
  })
)

/** Every store of the plugin, on its handle. */
export const stores = Layer.mergeAll(
  RuntimeStore.layer,
  AutoRecoveryStore.layer,
  OperationStore.layer,
  OperationRows.layer,
  RuntimeLog.layer,
  LeaseStore.layer,
  LeaseAdmission.layer,
  RepositoryClaims.layer,
  SampleStore.layer,
  SnapshotRows.layer,
  WorktreeRows.layer,
  HistoryStore.layer,
  RemovalRecords.layer,
  alerts
).pipe(Layer.provideMerge(host))
