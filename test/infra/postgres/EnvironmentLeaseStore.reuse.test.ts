/** What the store lets a new lease take over, and what it refuses whatever the selection before it said; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { NewEnvironmentLease } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { sideBySide } from "../../support/sideBySide.ts"
import {
  newAgent,
  newEnvironment,
  newRun,
  newTask,
  newWorkspace,
  onClone,
  reusableLeaseId,
  reuseFixture
} from "../../domain/runLeases/fixture.ts"
import {
  leaseRow,
  leaseRowsOf,
  type RawLease,
  setLease,
  setMetadata
} from "../../domain/runLeases/rawRows.ts"
import { acquisition, insideHeld } from "./leaseRequests.ts"

type Fixture = Effect.Success<ReturnType<typeof reuseFixture>>

/** The stopped lease of RL-REUSE-05: of a task and an agent, without a workspace. */
const stopped = Effect.gen(function* () {
  const scene = yield* reuseFixture()
  yield* setLease(scene.lease, {
    status: "released",
    cleanup_status: "success",
    execution_workspace_id: null,
    task_id: scene.task
  })
  return scene
})

/** The next lease of the same scope. */
const next = (scene: Fixture, given: Partial<NewEnvironmentLease> = {}) =>
  Effect.map(leaseRow(scene.lease), (row) =>
    acquisition(scene, {
      policy: "reuse_by_environment",
      providerLeaseId: reusableLeaseId,
      task: scene.task,
      run: scene.run,
      metadata: row.metadata,
      replaces: scene.lease,
      ...given
    })
  )

const stampOf = (metadata: JsonObject): JsonObject => metadata["reusableSandboxLease"] as JsonObject

const refusals: ReadonlyArray<{
  readonly row: string
  readonly given?: (
    scene: Fixture,
    metadata: JsonObject
  ) => Effect.Effect<Partial<NewEnvironmentLease>, unknown, never>
  readonly former?: RawLease
}> = [
  { row: "no task", given: () => Effect.succeed({ task: null }) },
  {
    row: "different agent",
    given: (scene, metadata) => Effect.succeed({ metadata: { ...metadata, agentId: scene.run } })
  },
  {
    row: "different agent in the stamp",
    given: (scene, metadata) =>
      Effect.succeed({
        metadata: { ...metadata, reusableSandboxLease: { ...stampOf(metadata), agentId: scene.run } }
      })
  },
  {
    row: "different adapter in the stamp",
    given: (_, metadata) =>
      Effect.succeed({
        metadata: {
          ...metadata,
          reusableSandboxLease: { ...stampOf(metadata), adapterType: "native_runner" }
        }
      })
  },
  { row: "another resource", given: () => Effect.succeed({ providerLeaseId: "other-sandbox" }) },
  { row: "another provider", given: () => Effect.succeed({ provider: "other-plugin" }) },
  { row: "an ephemeral successor", given: () => Effect.succeed({ policy: "ephemeral" as const }) },
  { row: "an ephemeral lease", former: { lease_policy: "ephemeral" } },
  { row: "an active lease", former: { status: "active", cleanup_status: null } },
  { row: "a failed lease", former: { status: "failed" } },
  { row: "a lease that owes its cleanup", former: { status: "pending_cleanup", cleanup_status: "failed" } },
  { row: "an expired lease", former: { status: "expired" } },
  { row: "a lease that was retained in doubt", former: { status: "retained", cleanup_status: "failed" } },
  {
    row: "metadata that has no agent to compare",
    former: { metadata: { agentId: 5, reusableSandboxLease: [] } }
  }
]

describe("a reusable lease that is taken over", () => {
  it.live("RL-REUSE-06 is refused with 409 in every row of another task, agent, resource or state", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      for (const { former = {}, given, row } of refusals) {
        const scene = yield* stopped
        if (Object.keys(former).length > 0) yield* setLease(scene.lease, former)
        const before = yield* leaseRow(scene.lease)
        const metadata =
          former.metadata === undefined ? before.metadata : { ...before.metadata, agentId: scene.agent }
        const change = given === undefined ? {} : yield* given(scene, metadata)
        const asked = yield* next(scene, { metadata, ...change })
        const refused = yield* Effect.flip(leases.acquireLease(asked))
        assert.deepInclude(refused, { status: 409, code: "reusable_lease_scope_mismatch" }, row)
        assert.deepStrictEqual(yield* leaseRow(scene.lease), before, row)
        assert.strictEqual((yield* leaseRowsOf(scene.environment.id)).length, 1, row)
      }
    }).pipe(onClone)
  )

  it.live(
    "RL-REUSE-06 different task, different workspace, other environment and foreign tenant are refused",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const scene = yield* stopped
        const foreign = yield* reuseFixture()
        const rows: ReadonlyArray<Partial<NewEnvironmentLease>> = [
          { task: (yield* newTask(scene.tenant)).id },
          { executionWorkspace: (yield* newWorkspace(scene.tenant)).id },
          { environment: (yield* newEnvironment("sandbox")).id },
          { tenant: foreign.tenant },
          { replaces: foreign.lease }
        ]
        for (const row of rows) {
          const refused = yield* Effect.flip(leases.acquireLease(yield* next(scene, row)))
          assert.deepInclude(refused, { status: 409 })
        }
        assert.strictEqual((yield* leaseRow(scene.lease))["status"], "released")
      }).pipe(onClone)
  )

  it.live("RL-REUSE-09 transition 20: the older row is closed in the write that makes the new one", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const scene = yield* stopped
      const asked = yield* next(scene)
      const lease = yield* leases.acquireLease(asked)
      assert.deepInclude(lease, { id: asked.id, status: "active", providerLeaseId: reusableLeaseId })
      const closed = yield* leaseRow(scene.lease)
      assert.deepInclude(closed, { status: "expired", cleanup_status: "success", ended_by: "reuse" })
      assert.deepStrictEqual(yield* leases.acquireLease(asked), lease, "its answer may be asked for again")
      const late = yield* Effect.flip(leases.acquireLease(yield* next(scene)))
      assert.deepInclude(late, { status: 409 })
    }).pipe(onClone)
  )

  it.live(
    "RL-REUSE-04 within a workspace the task may be another one, and kept leases may be taken over",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const scene = yield* reuseFixture({ withTask: true })
        yield* setLease(scene.lease, { status: "retained", cleanup_status: "success" })
        const task = (yield* newTask(scene.tenant)).id
        const asked = yield* next(scene, { task, executionWorkspace: scene.workspace })
        assert.strictEqual((yield* leases.acquireLease(asked)).status, "active")
      }).pipe(onClone)
  )

  it.live(
    "RL-REUSE-09 of two runs that take it over at once one has it, and the other waits and learns why",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const scene = yield* stopped
        const [one, other] = [yield* next(scene), yield* next(scene)]
        const seen = yield* sideBySide(
          (held) => insideHeld((joined) => joined.acquireLease(one), held),
          Effect.flip(leases.acquireLease(other))
        )
        assert.isTrue(seen.waited)
        assert.strictEqual(Exit.isSuccess(seen.holder) ? seen.holder.value.id : "failed", one.id)
        assert.deepInclude(Exit.isSuccess(seen.contender) ? seen.contender.value : {}, { status: 409 })
        const rows = yield* leaseRowsOf(scene.environment.id)
        assert.deepStrictEqual(rows.map((row) => row["status"]).toSorted(), ["active", "expired"])
      }).pipe(onClone)
  )
})

describe("candidates for reuse", () => {
  it.live(
    "RL-REUSE-04 are of the tenant, the environment and the workspace, or of the task without one",
    () =>
      Effect.gen(function* () {
        const leases = yield* EnvironmentLeaseStore
        const scene = yield* reuseFixture({ withTask: true })
        const scope = {
          tenant: scene.tenant,
          environment: scene.environment.id,
          executionWorkspace: scene.workspace,
          task: null
        }
        const ids = (asked: typeof scope | { executionWorkspace: null; task: typeof scene.task }) =>
          Effect.map(leases.reusable({ ...scope, ...asked }), (found) => found.map(({ id }) => id))
        assert.deepStrictEqual(yield* ids(scope), [scene.lease])
        const foreign = yield* reuseFixture()
        assert.deepStrictEqual(yield* ids({ ...scope, tenant: foreign.tenant }), [])
        assert.deepStrictEqual(yield* ids({ ...scope, environment: foreign.environment.id }), [])
        assert.deepStrictEqual(yield* ids({ ...scope, executionWorkspace: foreign.workspace }), [])
        assert.deepStrictEqual(yield* ids({ executionWorkspace: null, task: scene.task }), [])
        yield* setLease(scene.lease, { execution_workspace_id: null })
        assert.deepStrictEqual(yield* ids({ executionWorkspace: null, task: scene.task }), [scene.lease])
        const other = (yield* newTask(scene.tenant)).id
        assert.deepStrictEqual(yield* ids({ executionWorkspace: null, task: other }), [])
        yield* setLease(scene.lease, { lease_policy: "ephemeral" })
        assert.deepStrictEqual(yield* ids({ executionWorkspace: null, task: scene.task }), [])
      }).pipe(onClone)
  )

  it.live("U26 the newest comes first, and one that is over is none", () =>
    Effect.gen(function* () {
      const leases = yield* EnvironmentLeaseStore
      const scene = yield* reuseFixture()
      const agent = yield* newAgent(scene.tenant)
      const run = yield* newRun(scene.tenant, agent.id)
      const newer = yield* leases.acquireLease(
        acquisition(scene, {
          policy: "reuse_by_environment",
          executionWorkspace: scene.workspace,
          run: run.id
        })
      )
      const found = leases.reusable({
        tenant: scene.tenant,
        environment: scene.environment.id,
        executionWorkspace: scene.workspace,
        task: null
      })
      assert.deepStrictEqual(
        (yield* found).map(({ id }) => id),
        [newer.id, scene.lease]
      )
      yield* setLease(newer.id, { status: "expired" })
      yield* setMetadata(scene.lease, { reusableSandboxLease: 1e300 })
      assert.deepStrictEqual(
        (yield* found).map(({ id }) => id),
        [scene.lease]
      )
    }).pipe(onClone)
  )
})
