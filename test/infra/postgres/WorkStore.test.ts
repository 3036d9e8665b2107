/** Agents, runs, tasks and workspaces of a tenant; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { agentRunsStoppedMax, endedRunsRemovedMax, tenantRunsMax } from "../../../src/domain/Bounds.ts"
import { type WorkReferenceRefused, WorkStore } from "../../../src/domain/work/WorkStore.ts"
import {
  newAgent,
  newRun,
  newTenant,
  newWorkspace,
  onClone,
  reuseFixture
} from "../../domain/runLeases/fixture.ts"
import { setRun, sql, value } from "../../domain/runLeases/rawRows.ts"

describe("WorkStore", () => {
  it.live("RL 2.1 what a row names has to be its tenant's, and it does not tell which it was not", () =>
    Effect.gen(function* () {
      const work = yield* WorkStore
      const [tenant, foreign] = [yield* newTenant, yield* newTenant]
      const agent = yield* newAgent(tenant, "native_runner")
      assert.deepStrictEqual(yield* work.agentById(tenant, agent.id), Option.some(agent))
      assert.deepStrictEqual(yield* work.agentById(foreign, agent.id), Option.none())
      const run = yield* newRun(tenant, agent.id)
      assert.deepInclude(run, {
        invocationSource: "manual",
        errorCode: null,
        result: null,
        finishedAtMillis: null
      })
      assert.deepStrictEqual(yield* work.runById(tenant, run.id), Option.some(run))
      assert.deepStrictEqual(yield* work.runById(foreign, run.id), Option.none())
      const workspace = yield* newWorkspace(tenant)
      const refused = (what: WorkReferenceRefused["what"]) => ({
        _tag: "WorkReferenceRefused" as const,
        what
      })
      const absent = foreign.replace(/.{4}$/, "0000") as typeof foreign
      const refusals = [
        yield* Effect.flip(work.createAgent({ tenant: absent, name: "a", adapterType: "x" })),
        yield* Effect.flip(work.createRun({ tenant: foreign, agent: agent.id, status: "queued" })),
        yield* Effect.flip(work.createTask({ tenant: foreign, title: "t", assignee: agent.id })),
        yield* Effect.flip(work.createTask({ tenant: absent, title: "t", assignee: null })),
        yield* Effect.flip(
          work.createWorkspace({ tenant: foreign, project: workspace.project, name: "w", mode: "m" })
        )
      ]
      assert.deepStrictEqual(
        refusals.map((each) => ({ _tag: each._tag, what: "what" in each ? each.what : null })),
        [refused("tenant"), refused("agent"), refused("agent"), refused("tenant"), refused("project")]
      )
      const task = yield* work.createTask({ tenant, title: "t", assignee: agent.id })
      assert.isTrue(yield* work.setTaskStatus(tenant, task.id, "done"))
      assert.isFalse(yield* work.setTaskStatus(foreign, task.id, "in_progress"))
      assert.strictEqual(yield* value("select status from core.tasks where id = $1::uuid", [task.id]), "done")
    }).pipe(onClone)
  )

  it.live("RL 2.1 a run that has ended does not come back, and its result is kept where none is given", () =>
    Effect.gen(function* () {
      const work = yield* WorkStore
      const tenant = yield* newTenant
      const agent = yield* newAgent(tenant)
      const run = yield* work.createRun({ tenant, agent: agent.id, status: "queued" })
      const execution = { environmentAcquisitionPhase: "shell" }
      assert.isTrue(yield* work.setRunStatus(run.id, { status: "running", result: { execution } }))
      assert.isTrue(yield* work.setRunStatus(run.id, { status: "failed", errorCode: "setup_failed" }))
      const ended = Option.getOrThrow(yield* work.runById(tenant, run.id))
      assert.deepInclude(ended, { status: "failed", errorCode: "setup_failed", result: { execution } })
      assert.isNotNull(ended.finishedAtMillis)
      assert.isFalse(yield* work.setRunStatus(run.id, { status: "running" }))
      assert.deepStrictEqual(Option.getOrThrow(yield* work.runById(tenant, run.id)), ended)
      assert.isNotNull(
        (yield* work.createRun({ tenant, agent: agent.id, status: "succeeded" })).finishedAtMillis
      )
    }).pipe(onClone)
  )

  it.live(
    "RL-DESTROY-09 the live runs of an agent come oldest first, and no more than one stop goes for",
    () =>
      Effect.gen(function* () {
        const work = yield* WorkStore
        const tenant = yield* newTenant
        const agent = yield* newAgent(tenant)
        const other = yield* newAgent(tenant)
        for (const status of ["queued", "scheduled_retry", "running", "succeeded", "failed"] as const) {
          yield* newRun(tenant, agent.id, status)
        }
        yield* newRun(tenant, other.id)
        assert.deepStrictEqual((yield* work.liveRunsOf(agent.id)).map(({ status }) => status).toSorted(), [
          "queued",
          "running",
          "scheduled_retry"
        ])
        yield* sql(
          `insert into core.runs (tenant_id, agent_id, status, created_at)
          select $1::uuid, $2::uuid, 'queued', now() - interval '1 hour' from generate_series(1, $3::int)`,
          [tenant, agent.id, agentRunsStoppedMax]
        )
        assert.deepStrictEqual(
          new Set((yield* work.liveRunsOf(agent.id)).map(({ status }) => status)),
          new Set(["queued"])
        )
        assert.strictEqual((yield* work.liveRunsOf(agent.id)).length, agentRunsStoppedMax)
      }).pipe(onClone)
  )

  it.live(
    "FC-15 a tenant's oldest ended runs make room for a new one, those with a lease that is not over stay, and live ones refuse",
    () =>
      Effect.gen(function* () {
        const work = yield* WorkStore
        const scene = yield* reuseFixture({ runStatus: "failed" })
        yield* sql("update core.runs set created_at = '2020-01-01' where id = $1::uuid", [scene.run])
        yield* sql(
          `insert into core.runs (tenant_id, agent_id, status, created_at)
            select $1::uuid, $2::uuid, case when n <= $4::int then 'succeeded' else 'running' end,
              '2020-01-02'::timestamptz + make_interval(secs => n) from generate_series(1, $3::int) n`,
          [scene.tenant, scene.agent, tenantRunsMax - 1, endedRunsRemovedMax + 1]
        )
        const ask = work.createRun({ tenant: scene.tenant, agent: scene.agent, status: "queued" })
        const made = yield* ask
        assert.isTrue(Option.isSome(yield* work.runById(scene.tenant, made.id)))
        assert.isTrue(Option.isSome(yield* work.runById(scene.tenant, scene.run)), "its lease is not over")
        const ended = value("select count(*)::int from core.runs where status = 'succeeded'")
        assert.strictEqual(yield* ended, 1, "the newest of the ended")
        yield* sql(
          `insert into core.runs (tenant_id, agent_id, status)
            select $1::uuid, $2::uuid, 'running' from generate_series(1, $3::int)`,
          [scene.tenant, scene.agent, endedRunsRemovedMax - 1]
        )
        yield* ask
        assert.strictEqual(yield* ended, 0)
        assert.deepInclude(yield* Effect.flip(ask), { code: "work_table_full", table: "runs" })
        yield* setRun(made.id, "cancelled")
        yield* ask
      }).pipe(onClone),
    60_000
  )
})
