/** The real handlers over a real socket, with ports that a test steers; whatever a handler asks beyond them dies. */
import { layer as layerSocket } from "../../../src/infra/http/socketServer.ts"
import { ApiClient, layer as layerClient } from "../../../src/infra/http/apiClient.ts"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { type Caller, HostAccounts } from "../../../src/domain/host/Accounts.ts"
import { DeletionRecord, DeletionStore } from "../../../src/domain/host/DeletionStore.ts"
import { Participants } from "../../../src/domain/host/Participants.ts"
import { HostProjects } from "../../../src/domain/host/Projects.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { Project, ProjectStore } from "../../../src/domain/host/ProjectStore.ts"
import type { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { HistoryReader } from "../../../src/domain/history/HistoryStore.ts"
import { RuntimeLog } from "../../../src/domain/history/RuntimeLog.ts"
import { NodeId } from "../../../src/domain/Identity.ts"
import { Identifiers } from "../../../src/domain/Identifiers.ts"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { Desktops } from "../../../src/domain/desktop/Desktops.ts"
import { Displays } from "../../../src/domain/desktop/Displays.ts"
import { HeldLeases } from "../../../src/domain/leases/HeldLeases.ts"
import { LeaseAdmission } from "../../../src/domain/leases/LeaseAdmission.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import { RepositoryClaims } from "../../../src/domain/leases/RepositoryClaims.ts"
import { OperationAlerts } from "../../../src/domain/operations/admission.ts"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import { OperationRows, OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import type { Runtime } from "../../../src/domain/runtimes/Runtime.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import { WorkspaceCopies } from "../../../src/domain/runtimes/WorkspaceCopies.ts"
import { LaunchCredentials } from "../../../src/domain/host/LaunchCredentials.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { SampleTargets } from "../../../src/domain/sampling/SampleStore.ts"
import { WorktreeRows } from "../../../src/domain/worktrees/WorktreeRows.ts"
import { layerRoutes } from "../../../src/infra/http/handlers.ts"
import { layerLocalCaller } from "../../../src/infra/http/middleware.ts"
import { SystemChecks } from "../../../src/infra/http/SystemChecks.ts"
import { administrator, deletionOfWeb, temporaryDirectory, uuid, web } from "./scriptedServer.ts"
import { environmentPorts, unasked } from "./unaskedPorts.ts"
import { storedOperation } from "./storedOperation.ts"
import type { QueueSight } from "../../../src/domain/operations/waiting.ts"

export const capacity = { sandboxes: 2, cpuMillis: 4_000, memoryBytes: 8 }

export interface Steered {
  readonly caller?: Caller
  readonly projects?: ReadonlyArray<string>
  readonly removing?: Effect.Effect<void>
  readonly runtime?: Runtime
  readonly inspect?: GuestSupervisor["Service"]["inspect"]
  readonly operations?: Partial<OperationStore["Service"]>
  readonly sights?: ReadonlyArray<QueueSight>
  readonly history?: HistoryReader["Service"]["read"]
  readonly environmentLeases?: Partial<EnvironmentLeaseStore["Service"]>
}

/** Ports over one Project `web` (id 7) and one operation; whatever a handler asks beyond that dies. */
const ports = ({ projects = ["web", "7"], removing = Effect.void, ...steered }: Steered) => {
  const record = new DeletionRecord({
    ...deletionOfWeb,
    attempts: 0,
    state: "pending",
    completedSteps: [],
    proofs: []
  })
  return Layer.mergeAll(
    Layer.mock(ProjectStore)({
      find: (_, reference) =>
        Effect.succeed(projects.includes(reference) ? Option.some(new Project(web)) : Option.none()),
      audit: () => Effect.void
    }),
    Layer.mock(DeletionStore)({
      requireOwner: () => Effect.void,
      byProject: () => Effect.succeed(Option.none()),
      admit: () => Effect.succeed(record),
      completeStep: () => Effect.void,
      finalize: () => Effect.succeed(new DeletionRecord({ ...deletionOfWeb, attempts: 0 }))
    }),
    Layer.mock(Participants)({
      inOrder: Effect.succeed([
        {
          name: "plugin:sandbox",
          phase: "storage",
          describe: () => Effect.succeed({ paths: deletionOfWeb.confirmedPaths, labels: ["sb-1"] }),
          remove: () => Effect.as(removing, { paths: [], proofs: [] })
        }
      ])
    }),
    Layer.mock(OperationStore)({
      byId: () => Effect.succeed(Option.some(storedOperation({ state: "succeeded" }))),
      takeBack: () =>
        Effect.succeedSome({ outcome: "repeated", operation: storedOperation({ state: "superseded" }) }),
      newestOfProject: () => Effect.succeed([storedOperation()]),
      overview: () =>
        Effect.succeed({
          runtime: Option.fromUndefinedOr(steered.runtime),
          live: Option.none(),
          newest: [storedOperation({ state: "failed" })]
        }),
      ...steered.operations
    }),
    Layer.mock(OperationRows)({ queueSights: () => Effect.succeed(steered.sights ?? []) }),
    Layer.mock(RuntimeLog)({ newest: () => Effect.succeed([]) }),
    Layer.mock(LeaseStore)({ ofProject: () => Effect.succeed([]) }),
    Layer.mock(SampleTargets)({ latest: () => Effect.succeed(Option.none()) }),
    Layer.mock(HistoryReader)({ read: steered.history ?? (() => Effect.succeed([])) }),
    Layer.mock(Registry)({
      node: NodeId.make(uuid(3)),
      capacity,
      charges: Effect.succeed({ sandboxes: 1, cpuMillis: 1, memoryBytes: 1, snapshotBytes: 1 })
    }),
    Desktops.layer,
    unasked(Displays),
    Layer.mock(SystemChecks)({
      version: "0.1.0",
      node: uuid(3),
      health: Effect.succeed([]),
      doctor: Effect.succeed([])
    }),
    OperationEvents.layer,
    Layer.mock(OperationAlerts)({}),
    Layer.mock(Identifiers)({}),
    unasked(GuestSupervisor, steered.inspect === undefined ? {} : { inspect: steered.inspect }),
    unasked(HeldLeases),
    unasked(LeaseAdmission),
    unasked(RuntimeStore),
    unasked(LaunchCredentials),
    unasked(SnapshotRows),
    unasked(RepositoryClaims),
    unasked(WorktreeRows),
    unasked(WorkspaceCopies),
    unasked(HostAccounts),
    unasked(HostProjects),
    environmentPorts(steered.environmentLeases),
    unasked(PluginDb)
  )
}

export const serve = Effect.fnUntraced(function* (steered: Steered = {}) {
  const path = Path.join(yield* temporaryDirectory, "d.sock")
  const routes = layerRoutes.pipe(
    Layer.provide(layerLocalCaller(steered.caller ?? administrator)),
    Layer.provide(ports(steered))
  )
  yield* Layer.build(layerSocket(routes, { path, stopGraceMillis: 100 }))
  const context = yield* Layer.build(layerClient(path))
  return yield* Effect.provideContext(ApiClient, context)
})
