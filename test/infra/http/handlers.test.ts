/** The real handlers over a real socket, with ports that a test steers: what they resolve, hide and carry on. */
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import { Caller, HostAccounts } from "../../../src/domain/host/Accounts.ts"
import { DeletionRecord, DeletionStore } from "../../../src/domain/host/DeletionStore.ts"
import { Participants } from "../../../src/domain/host/Participants.ts"
import { HostProjects } from "../../../src/domain/host/Projects.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { Project, ProjectStore } from "../../../src/domain/host/ProjectStore.ts"
import { HistoryReader } from "../../../src/domain/history/HistoryStore.ts"
import { Generation, NodeId } from "../../../src/domain/Identity.ts"
import { Identifiers } from "../../../src/domain/Identifiers.ts"
import {
  GuestFailure,
  GuestIdentity,
  GuestObservation,
  GuestSupervisor
} from "../../../src/domain/guests/GuestSupervisor.ts"
import { HeldLeases } from "../../../src/domain/leases/HeldLeases.ts"
import { LeaseAdmission } from "../../../src/domain/leases/LeaseAdmission.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import { OperationAlerts } from "../../../src/domain/operations/admission.ts"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import { OperationRows, OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import type { Runtime } from "../../../src/domain/runtimes/Runtime.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { SampleTargets } from "../../../src/domain/sampling/SnapshotStore.ts"
import { NotFound } from "../../../src/infra/http/ApiErrors.ts"
import { ApiClient, layer as layerClient } from "../../../src/infra/http/apiClient.ts"
import { layerRoutes } from "../../../src/infra/http/handlers.ts"
import { layerLocalCaller } from "../../../src/infra/http/middleware.ts"
import { layer as layerSocket } from "../../../src/infra/http/socketServer.ts"
import { SystemChecks } from "../../../src/infra/http/SystemChecks.ts"
import { administrator, deletionOfWeb, temporaryDirectory, uuid, web } from "./scriptedServer.ts"
import { canary, storedOperation, storedRuntime } from "./storedOperation.ts"

const member = new Caller({ ...administrator, administrator: false })
const capacity = { sandboxes: 2, cpuMillis: 4_000, memoryBytes: 8 }

interface Steered {
  readonly caller?: Caller
  readonly projects?: ReadonlyArray<string>
  readonly removing?: Effect.Effect<void>
  readonly runtime?: Runtime
  readonly inspect?: GuestSupervisor["Service"]["inspect"]
}

/** A port that these tests never come to, but for what is given: a handler that asks anything else dies. */
const unasked = <I, S extends object>(port: Context.Key<I, S>, given: Partial<S> = {}): Layer.Layer<I> =>
  Layer.succeed(
    port,
    new Proxy(given as S, {
      get: (target, name) => {
        if (Reflect.has(target, name)) return Reflect.get(target, name)
        throw new Error(`${port.key}.${String(name)} is not asked here`)
      }
    })
  )

/** Ports over one Project `web` (id 7) and one operation; whatever a handler asks beyond that dies. */
const ports = ({ projects = ["web", "7"], removing = Effect.void, ...steered }: Steered) => {
  const record = new DeletionRecord({ ...deletionOfWeb, state: "pending", completedSteps: [], proofs: [] })
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
      finalize: () => Effect.succeed(new DeletionRecord(deletionOfWeb))
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
      overview: () =>
        Effect.succeed({
          runtime: Option.fromUndefinedOr(steered.runtime),
          live: Option.none(),
          newest: [storedOperation({ state: "failed" })]
        })
    }),
    Layer.mock(OperationRows)({ queueSights: () => Effect.succeed([]) }),
    Layer.mock(LeaseStore)({ ofProject: () => Effect.succeed([]) }),
    Layer.mock(SampleTargets)({ snapshot: () => Effect.succeed(Option.none()) }),
    Layer.mock(HistoryReader)({ read: () => Effect.succeed([]) }),
    Layer.mock(Registry)({
      node: NodeId.make(uuid(3)),
      capacity,
      charges: Effect.succeed({ sandboxes: 1, cpuMillis: 1, memoryBytes: 1, snapshotBytes: 1 })
    }),
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
    unasked(HostAccounts),
    unasked(HostProjects),
    unasked(PluginDb)
  )
}

const serve = Effect.fnUntraced(function* (steered: Steered = {}) {
  const path = Path.join(yield* temporaryDirectory, "d.sock")
  const routes = layerRoutes.pipe(
    Layer.provide(layerLocalCaller(steered.caller ?? administrator)),
    Layer.provide(ports(steered))
  )
  yield* Layer.build(layerSocket(routes, { path, stopGraceMillis: 100 }))
  const context = yield* Layer.build(layerClient(path))
  return yield* Effect.provideContext(ApiClient, context)
})

const operationId = storedOperation().id
const { sandbox } = storedRuntime(uuid(3)).recipe!

const identity = new GuestIdentity({
  supervisor: "bubblewrap",
  sandbox,
  generation: Generation.make(1),
  runId: uuid(6),
  attemptId: uuid(7),
  bootId: uuid(8),
  monitor: { pid: 1, startTicks: "1" },
  init: { pid: 2, startTicks: "1" },
  groups: [],
  userId: 30_000
})

describe("handlers", () => {
  it.live(
    "SP-HTTP-04 an operation of a Project that a member may not see is answered like a missing one",
    () =>
      Effect.gen(function* () {
        const hidden = yield* serve({ caller: member, projects: [] })
        const error = yield* Effect.flip(hidden.operations.get({ params: { id: operationId } }))
        assert.deepStrictEqual(
          ["code" in error ? error.code : "", error instanceof NotFound],
          ["project_not_found", true]
        )
        const seen = yield* serve({ caller: member })
        assert.strictEqual((yield* seen.operations.get({ params: { id: operationId } })).id, operationId)
      })
  )

  it.live("an administrator still reads the receipts of a Project that is gone", () =>
    Effect.gen(function* () {
      const client = yield* serve({ projects: [] })
      assert.strictEqual((yield* client.operations.get({ params: { id: operationId } })).id, operationId)
    })
  )

  it.live("FC-21 no answer shows a recipe, a parameter or a claimant", () =>
    Effect.gen(function* () {
      const client = yield* serve()
      const status = yield* client.projects.status({ params: { project: "web" } })
      const operation = yield* client.operations.get({ params: { id: operationId } })
      assert.lengthOf(status.operations, 1)
      assert.deepStrictEqual(status.charges.capacity, capacity)
      assert.notInclude(JSON.stringify([status, operation]), canary)
    })
  )

  const sights = [
    ["bubblewrap", "lives", Effect.succeed(GuestObservation.cases.Running.make({ identity }))],
    ["bubblewrap", "is paused", Effect.succeed(GuestObservation.cases.Paused.make({ identity }))],
    [null, "is in doubt", Effect.succeed(GuestObservation.cases.Uncertain.make({ why: "no answer" }))],
    [null, "cannot be seen", Effect.fail(new GuestFailure({ sandbox, step: "look", detail: "EIO" }))]
  ] as const
  for (const [carriedBy, state, seen] of sights) {
    it.live(`the status names ${carriedBy ?? "nobody"} as the carrier of an auto guest that ${state}`, () =>
      Effect.gen(function* () {
        const client = yield* serve({ runtime: storedRuntime(uuid(3)), inspect: () => seen })
        const { runtime } = yield* client.projects.status({ params: { project: "web" } })
        assert.deepInclude(runtime, { supervisor: "auto", carriedBy, sandbox })
      })
    )
  }

  it.live("of a runtime that another node carries this machine is not asked", () =>
    Effect.gen(function* () {
      const client = yield* serve({ runtime: storedRuntime(uuid(5)) })
      const { runtime } = yield* client.projects.status({ params: { project: "web" } })
      assert.deepInclude(runtime, { supervisor: "auto", carriedBy: null })
    })
  )

  it.live("a deletion that was admitted goes on when its caller hangs up", () =>
    Effect.gen(function* () {
      const [reached, release, removed] = [
        yield* Deferred.make<void>(),
        yield* Deferred.make<void>(),
        yield* Deferred.make<void>()
      ]
      const removing = Deferred.succeed(reached, undefined).pipe(
        Effect.andThen(Deferred.await(release)),
        Effect.andThen(Deferred.succeed(removed, undefined)),
        Effect.asVoid
      )
      const client = yield* serve({ removing })
      const request = {
        params: { project: "web" },
        payload: { confirmedPaths: deletionOfWeb.confirmedPaths }
      }
      const caller = yield* Effect.forkChild(client.projects.delete(request))
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(caller)
      // Later requests are answered after the server has seen the earlier connection close.
      for (const _ of [1, 2, 3]) yield* client.system.health()
      yield* Deferred.succeed(release, undefined)
      yield* Effect.timeout(Deferred.await(removed), "5 seconds")
    })
  )

  it.live("SP-DEL-07 paths that are not those of the preview are refused, and nothing is removed", () =>
    Effect.gen(function* () {
      const removed = yield* Ref.make(false)
      const client = yield* serve({ removing: Ref.set(removed, true) })
      const preview = yield* client.projects.previewDeletion({ params: { project: "7" } })
      for (const confirmedPaths of [preview.paths.slice(1), [...preview.paths, "/etc"]]) {
        const request = { params: { project: "web" }, payload: { confirmedPaths } }
        const error = yield* Effect.flip(client.projects.delete(request))
        assert.strictEqual("code" in error ? error.code : "", "confirmation_stale")
      }
      assert.isFalse(yield* Ref.get(removed))
      const request = { params: { project: "web" }, payload: { confirmedPaths: preview.paths } }
      assert.strictEqual((yield* client.projects.delete(request)).state, "completed")
      assert.isTrue(yield* Ref.get(removed))
    })
  )
})
