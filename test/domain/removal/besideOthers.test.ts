/** A Project's whole life beside somebody else's transaction that stays open, and after the database was opened anew. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { removedProjectsKeptMax } from "../../../src/domain/Bounds.ts"
import { pruneHistory } from "../../../src/domain/history/maintenance.ts"
import { HistoryReader } from "../../../src/domain/history/HistoryStore.ts"
import { RuntimeLog } from "../../../src/domain/history/RuntimeLog.ts"
import type { ProjectId } from "../../../src/domain/Identity.ts"
import { heartbeat } from "../../../src/domain/leases/heartbeat.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import { sweepLeases } from "../../../src/domain/leases/sweep.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { recoverClaims } from "../../../src/domain/operations/recovery.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import { reconcileRuntimes } from "../../../src/domain/runtimes/reconciliation.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { recordSample } from "../../../src/domain/sampling/refresh.ts"
import { SampleTargets } from "../../../src/domain/sampling/SampleStore.ts"
import { lockKey } from "../../../src/infra/postgres/locks.ts"
import * as Live from "../../../src/layers/live.ts"
import { Clone } from "../../support/clone.ts"
import { heldTransaction, sqlInside } from "../leases/fixture.ts"
import { baseMillis, candidate } from "../sampling/samples.ts"
import { admitDeletion, ask, commandOf, fixture, newProject, provisioned, settled } from "./fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

/** A sample under the runtime's present generation and epoch, a while ago: its minute is expired already. */
const sample = Effect.fnUntraced(function* (project: ProjectId, startedAtMillis?: number) {
  const store = yield* RuntimeStore
  const { generation, refreshEpoch } = Option.getOrThrow(yield* store.runtime(project))
  const times = startedAtMillis === undefined ? {} : { startedAtMillis, nowMillis: startedAtMillis }
  yield* recordSample(project, candidate({ generation, refreshEpoch, ...times }))
})

const rowsOfProject = [
  "runtimes",
  "runtime_operations",
  "resource_samples",
  "resource_rollups",
  "runtime_logs"
]

/** Holds every row and every advisory lock of a Project, with a snapshot and changes of its own, until it is released. */
const holdEverything = (project: ProjectId) => {
  const statements: ReadonlyArray<readonly [text: string, ...parameters: ReadonlyArray<unknown>]> = [
    ["select 1 from core.projects where id = $1::bigint for update", project],
    ...rowsOfProject.map(
      (table) => [`select 1 from ${table} where project_id = $1::bigint for update`, project] as const
    ),
    ["update runtimes set changed_at = now() where project_id = $1::bigint", project],
    ["select pg_advisory_xact_lock($1::bigint)", lockKey("receipts", project)],
    ["insert into history_deletions (project_id) values ($1::bigint)", 1_000_000 + project]
  ]
  const append = Effect.flatMap(RuntimeLog, (log) =>
    log.append(project, { operation: null, lines: ["held"] })
  )
  return heldTransaction(
    Effect.andThen(
      Effect.forEach(statements, ([text, ...parameters]) => sqlInside(text, parameters), { discard: true }),
      append
    )
  )
}

/** All that can happen to a Project, and what goes on beside it. Each part answers soon, or the test fails. */
const wholeLife = Effect.gen(function* () {
  const { node } = yield* Registry
  const scene = yield* provisioned
  assert.strictEqual(scene.operation.state, "succeeded", scene.operation.errorText ?? "")
  yield* Stream.runDrain(commandOf(scene))
  yield* sample(scene.project)
  yield* sample(scene.project, baseMillis + 60_000)
  yield* heartbeat()
  yield* sweepLeases(node)
  yield* recoverClaims()
  yield* reconcileRuntimes(() => false)
  assert.isAbove(yield* pruneHistory(), 0)
  // More receipts than are kept, so that the trim comes to its work too.
  for (let n = 0; n < 12; n += 1) {
    for (const action of ["stop", "start"] as const) {
      assert.strictEqual((yield* Effect.flatMap(ask(scene, action), settled)).state, "succeeded")
    }
  }
  const { paths } = yield* describeProjectRemoval(scene.project)
  yield* admitDeletion(scene, paths)
  assert.lengthOf((yield* removeProject(scene.project)).proofs, 1)
})

const retained = Effect.fnUntraced(function* (project: ProjectId) {
  const { overview } = yield* OperationStore
  const { ofProject } = yield* LeaseStore
  const { latest } = yield* SampleTargets
  const { read } = yield* HistoryReader
  const log = yield* RuntimeLog
  const range = { metrics: ["pids", "cpu_usec"], fromMillis: 0, toMillis: 10 ** 14 } as const
  return {
    overview: yield* overview(project, 20),
    leases: (yield* ofProject(project)).map((lease) => ({ ...lease, heartbeatAgeMillis: 0 })),
    sample: yield* latest(project),
    minutes: yield* read(project, { ...range, resolution: "minute" }),
    hours: yield* read(project, { ...range, resolution: "hour" }),
    log: yield* log.newest(project, 200)
  }
})

describe("a Project beside others", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("SP-TEST-03 an unrelated transaction that stays open stalls no part of a Project's life", () =>
      Effect.gen(function* () {
        const other = yield* provisioned
        yield* sample(other.project)
        const rival = yield* holdEverything(other.project)
        yield* wholeLife.pipe(Effect.timeout("30 seconds"))
        yield* rival.release
      }).pipe(Effect.scoped)
    )

    it.effect("FC-15 a removal lets the receipts of the oldest removed Project go", () =>
      Effect.gen(function* () {
        const { admin } = yield* Clone
        yield* admin(
          `insert into plugin_sandbox.runtime_operations
              (id, project_id, initiator, action, request_key, generation, state, settled_at)
            select gen_random_uuid(), 2000000 + n, 'system', 'delete', 'k', 1, 'succeeded', now()
            from generate_series(1, $1::int) n order by n`,
          [removedProjectsKeptMax]
        )
        const oldest = Effect.map(
          admin(
            "select min(project_id)::int as project from plugin_sandbox.runtime_operations where project_id > 2000000"
          ),
          ([row]) => row?.["project"]
        )
        assert.strictEqual(yield* oldest, 2_000_001)
        const scene = yield* newProject
        yield* admitDeletion(scene, [])
        yield* removeProject(scene.project)
        assert.strictEqual(yield* oldest, 2_000_002)
      })
    )

    it.effect("SP-TEST-03 receipts, lease, sample, history and log are the same after reopening", () =>
      Effect.gen(function* () {
        const { project } = yield* provisioned
        const [now] = yield* (yield* Clone).admin(
          "select (extract(epoch from now()) * 1000)::float8 as millis"
        )
        yield* sample(project, Math.floor(Number(now?.["millis"])))
        yield* (yield* Clone).admin(
          `insert into plugin_sandbox.execution_leases
              (id, project_id, generation, sandbox_id, process, label, cancel)
            values (gen_random_uuid(), $1::bigint, 1, 'sb-00000000-0000-4000-8000-000000000000',
              'daemon/node/boot/1/1', 'sh', 'requested')`,
          [BigInt(project)]
        )
        const before = yield* retained(project)
        const { openDb } = yield* Clone
        const reopened = Layer.fresh(Live.stores).pipe(Layer.provide(Layer.effect(PluginDb, openDb())))
        assert.deepStrictEqual(yield* retained(project).pipe(Effect.provide(reopened)), before)
        assert.deepStrictEqual(
          [before.leases.length, before.minutes.length, before.hours.length, before.sample._tag],
          [1, 2, 2, "Some"]
        )
        assert.isAbove(before.log.length, 0)
      }).pipe(Effect.scoped)
    )
  })
})
