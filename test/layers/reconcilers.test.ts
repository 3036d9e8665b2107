/** The sweep of a daemon in which everything fails: it says so, goes on, and health says so too. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/testing/TestClock"
import { deletionRetryMillis } from "../../src/domain/Bounds.ts"
import { DeletionStore } from "../../src/domain/host/DeletionStore.ts"
import { Participants } from "../../src/domain/host/Participants.ts"
import { ProjectStore } from "../../src/domain/host/ProjectStore.ts"
import { Generation, NodeId, ProjectId, SnapshotId } from "../../src/domain/Identity.ts"
import { GuestCapabilities } from "../../src/domain/guests/GuestSpec.ts"
import { GuestFailure, GuestSupervisor } from "../../src/domain/guests/GuestSupervisor.ts"
import { HeldLeases } from "../../src/domain/leases/HeldLeases.ts"
import { RepositoryClaims } from "../../src/domain/leases/RepositoryClaims.ts"
import { LeaseStore } from "../../src/domain/leases/LeaseStore.ts"
import { OperationAlerts } from "../../src/domain/operations/admission.ts"
import { AutoRecoveryStore } from "../../src/domain/operations/AutoRecoveryStore.ts"
import { Executions } from "../../src/domain/operations/Executions.ts"
import { OperationEvents } from "../../src/domain/operations/OperationEvents.ts"
import { OperationStore } from "../../src/domain/operations/OperationStore.ts"
import { StorageFailure } from "../../src/domain/persistence/PluginDb.ts"
import { RunState } from "../../src/domain/reclamation/RunState.ts"
import { Registry, StorageFailed } from "../../src/domain/registry/Registry.ts"
import { Identifiers } from "../../src/domain/Identifiers.ts"
import { RuntimeStore } from "../../src/domain/runtimes/RuntimeStore.ts"
import { Snapshot, SnapshotRows } from "../../src/domain/runtimes/SnapshotRows.ts"
import { WorkspaceCopies } from "../../src/domain/runtimes/WorkspaceCopies.ts"
import { RuntimeLog } from "../../src/domain/history/RuntimeLog.ts"
import { DiskFailure } from "../../src/domain/runtimes/Disks.ts"
import { OrphanSpool } from "../../src/domain/runLeases/OrphanSpool.ts"
import { SweepReports } from "../../src/domain/SweepReports.ts"
import { layer as layerChecks, SystemChecks } from "../../src/infra/http/SystemChecks.ts"
import { deletions, sweep } from "../../src/layers/reconcilers.ts"
import { operation, recipe } from "../domain/operations/builders.ts"
import { recordOf, roomy, sandboxOf } from "../domain/registry/fixture.ts"
import { machineWith, self } from "../infra/postgres/operationsFixture.ts"

const node = NodeId.make("00000000-0000-4000-8000-00000000000a")
const away = new StorageFailure({ operation: "test", fault: "connection", state: null, constraint: null })

interface Failing {
  readonly database?: boolean
  readonly registry?: boolean
  readonly guests?: boolean
  readonly copies?: boolean
  /** Recoveries are due, and what their admission answers. */
  readonly admission?: OperationStore["Service"]["enqueue"]
}

const due = [7, 8].map((project) => ({
  project: ProjectId.make(project),
  generation: Generation.make(1),
  refreshEpoch: 0,
  desired: "running" as const,
  observed: "failed" as const,
  isBusy: false,
  attempts: 0,
  dueInMillis: 0,
  runningForMillis: null
}))

/** A snapshot whose removal was decided. */
const going = new Snapshot({
  rowId: 1,
  project: ProjectId.make(7),
  id: SnapshotId.make("kept"),
  path: "/disks/7/snapshots/1",
  bytes: null,
  generation: Generation.make(1),
  recipe: recipe(),
  state: "removing",
  operation: operation().id,
  account: null,
  pausedBy: null,
  removedBy: "a test",
  reason: "asked",
  createdAtMillis: 0
})

/** Three sandboxes on the node, and what fails of it. */
const ports = ({
  admission,
  copies = false,
  database = false,
  guests = false,
  registry = false
}: Failing) => {
  const orAway = <A>(answer: A) => (database ? Effect.fail(away) : Effect.succeed(answer))
  const records = new Map([1, 2, 3].map((number) => [sandboxOf(number), recordOf(number)]))
  return Layer.mergeAll(
    Layer.mock(Registry)({
      node,
      capacity: roomy,
      charges: registry
        ? Effect.fail(new StorageFailed({ during: "sync" }))
        : Effect.succeed({ sandboxes: 3, cpuMillis: 1, memoryBytes: 1, snapshotBytes: 1 }),
      inventory: registry ? Effect.fail(new StorageFailed({ during: "sync" })) : Effect.succeed(records),
      get: (sandbox) => Effect.succeed(records.get(sandbox)!),
      exclusiveIfFree: (sandbox, effect) =>
        guests
          ? Effect.asSome(effect)
          : sandbox === sandboxOf(1)
            ? Effect.succeed(Option.none())
            : Effect.asSome(Effect.succeed({ sandbox, verdict: "keep", why: null } as never))
    }),
    Layer.mock(GuestSupervisor)({
      capabilities: new GuestCapabilities({
        supervisor: "scripted",
        isolation: "none",
        limits: "none",
        privateUser: false,
        seccomp: false,
        survivesDaemon: false,
        pause: false,
        ports: false,
        proof: "process"
      } as never),
      inspect: (sandbox) => Effect.fail(new GuestFailure({ sandbox, step: "look", detail: "EIO" }))
    }),
    Layer.mock(OperationStore)({
      claimed: () => orAway([]),
      enqueue: admission ?? (() => Effect.fail(away))
    }),
    Layer.mock(RuntimeStore)({ process: self, idlePage: () => orAway([]) }),
    Layer.mock(AutoRecoveryStore)({
      watched: () => orAway(admission === undefined ? [] : due),
      count: () => Effect.void
    }),
    Layer.mock(LeaseStore)({
      inventory: () => orAway([]),
      deleteObserved: () => orAway([]),
      removeEnded: database ? Effect.fail(away) : Effect.succeed(2)
    }),
    Layer.mock(RepositoryClaims)({ inventory: () => orAway([]) }),
    HeldLeases.layer.pipe(Layer.provide(machineWith(self, [self]))),
    Layer.mock(Executions)({ giveBackUnheld: () => Effect.void, isBusy: () => false }),
    Layer.mock(SnapshotRows)({
      unfinished: () => orAway([{ snapshot: going, isLive: false, isClaimed: false }]),
      remove: () => Effect.succeed(true)
    }),
    Layer.mock(WorkspaceCopies)({
      discard: (path) =>
        copies ? Effect.fail(new DiskFailure({ step: "remove", path, why: "EIO" })) : Effect.void
    }),
    Layer.mock(OrphanSpool)({ load: Effect.succeed([]), quarantined: Effect.succeed(0) }),
    Layer.mock(RuntimeLog)({}),
    Layer.mock(RunState)({}),
    Layer.mock(OperationAlerts)({ startRefused: () => Effect.void }),
    Layer.mock(Identifiers)({ uuid: Effect.succeed(operation().id) }),
    machineWith(self, [self]),
    OperationEvents.layer
  )
}

/** One sweep, what it reported, and what health says then. */
const swept = (failing: Failing) =>
  Effect.gen(function* () {
    yield* sweep
    const reports = yield* (yield* SweepReports).all
    const checks = yield* (yield* SystemChecks).health
    const told = reports.map(({ attempted, done, failed, sweep: name }) => [name, attempted, done, failed])
    return { told, failed: checks.filter(({ state }) => state === "failed").map(({ name }) => name) }
  }).pipe(
    Effect.provide(
      layerChecks({ version: "0" }).pipe(Layer.provideMerge(Layer.merge(ports(failing), SweepReports.layer)))
    )
  )

describe("reconcilers", () => {
  it.effect(
    "FC-05 a sweep in which all is well says how much that was; one at work elsewhere is not attempted",
    () =>
      Effect.gen(function* () {
        const { failed, told } = yield* swept({})
        assert.deepStrictEqual<ReadonlyArray<unknown>>(told, [
          ["claims", 0, 0, 0],
          ["sandboxes", 2, 2, 0],
          ["snapshots", 1, 1, 0],
          ["runtimes", 0, 0, 0],
          ["automatic recoveries", 0, 0, 0],
          ["leases", 2, 2, 0]
        ])
        assert.deepStrictEqual(failed, [])
      })
  )

  it.effect(
    "FC-05 a sweep in which every row fails says so: attempted 3, done 0, failed 3, and health is degraded",
    () =>
      Effect.gen(function* () {
        const { failed, told } = yield* swept({ guests: true })
        assert.deepStrictEqual<unknown>(told[1], ["sandboxes", 3, 0, 3])
        assert.deepStrictEqual(failed, ["sweep of sandboxes"])
      })
  )

  it.effect(
    "FC-05 with the database away its sweeps fail, and the sandboxes of the node are reconciled all the same",
    () =>
      Effect.gen(function* () {
        const { failed, told } = yield* swept({ database: true })
        assert.deepStrictEqual<ReadonlyArray<unknown>>(told, [
          ["claims", 1, 0, 1],
          ["sandboxes", 2, 2, 0],
          ["snapshots", 1, 0, 1],
          ["runtimes", 1, 0, 1]
        ])
        assert.includeMembers(failed, [
          "database",
          "sweep of claims",
          "sweep of snapshots",
          "sweep of runtimes"
        ])
      })
  )

  it.effect("FC-05 a snapshot whose copy cannot be removed is a failed one, and the sweep goes on", () =>
    Effect.gen(function* () {
      const { failed, told } = yield* swept({ copies: true })
      assert.deepStrictEqual<unknown>(told[2], ["snapshots", 1, 0, 1])
      assert.deepStrictEqual<unknown>(told[3], ["runtimes", 0, 0, 0])
      assert.deepStrictEqual(failed, ["sweep of snapshots"])
    })
  )

  it.effect("FC-05 without the registry nothing is concluded from it", () =>
    Effect.gen(function* () {
      const { failed, told } = yield* swept({ registry: true })
      assert.deepStrictEqual<ReadonlyArray<unknown>>(told, [
        ["claims", 0, 0, 0],
        ["sandboxes", 1, 0, 1]
      ])
      assert.includeMembers(failed, ["registry", "sweep of sandboxes"])
    })
  )

  it.effect(
    "FC-05 recoveries that the database does not take are failed ones; who got in first is none",
    () =>
      Effect.gen(function* () {
        const recoveries = (admission: OperationStore["Service"]["enqueue"]) =>
          Effect.map(swept({ admission }), ({ told }) => told[4])
        const first = yield* recoveries(() => Effect.fail(away))
        assert.deepStrictEqual<unknown>(first, ["automatic recoveries", 2, 0, 2])
        const live = operation({ state: "claimed" })
        const second = yield* recoveries(() => Effect.succeed({ outcome: "in_progress", operation: live }))
        assert.deepStrictEqual<unknown>(second, ["automatic recoveries", 0, 0, 0])
        const third = yield* recoveries(() =>
          Effect.succeed({ outcome: "admitted", operation: live, superseded: [] })
        )
        assert.deepStrictEqual<unknown>(third, ["automatic recoveries", 2, 2, 0])
      })
  )

  it.effect(
    "FC-09 pending deletions are gone on with a minute after each pass, also after one that failed",
    () =>
      Effect.gen(function* () {
        let passes = 0
        const due = () =>
          Effect.suspend(() => {
            passes += 1
            return passes === 2 ? Effect.fail(away) : Effect.succeed([])
          })
        const loop = yield* deletions.pipe(
          Effect.provide(
            Layer.mergeAll(
              Layer.mock(DeletionStore)({ due, needingOperator: Effect.succeed(0) }),
              Layer.mock(ProjectStore)({}),
              Participants.layer,
              SweepReports.layer
            )
          ),
          Effect.forkChild
        )
        yield* TestClock.adjust(0)
        assert.strictEqual(passes, 1)
        yield* TestClock.adjust(deletionRetryMillis - 1)
        assert.strictEqual(passes, 1)
        yield* TestClock.adjust(1)
        yield* TestClock.adjust(deletionRetryMillis)
        assert.strictEqual(passes, 3)
        yield* Fiber.interrupt(loop)
      })
  )
})
