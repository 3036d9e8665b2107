/** What the removal clears beside the other stores, in the caller's transaction. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { receiptsTrimmedMax, removedProjectsKeptMax } from "../../../src/domain/Bounds.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { RemovalRecords } from "../../../src/domain/removal/RemovalRecords.ts"
import { layer } from "../../../src/infra/postgres/RemovalRecords.ts"
import { Clone, clone } from "../../support/clone.ts"

const lease = `insert into plugin_sandbox.execution_leases (id, project_id, generation, sandbox_id, process, label, cancel)
  values (gen_random_uuid(), $1::bigint, 1, 'sb', 'p', 'sh', $2)`
const claim = `insert into plugin_sandbox.repository_claims (project_id, repository, id, generation, sandbox_id, process)
  values ($1::bigint, 'repository', gen_random_uuid(), 1, 'sb', 'p')`

describe("RemovalRecords", () => {
  it.live(
    "SP-DEL-10 clears every lease and claim of the Project, tombstones too, and no other's; a rollback keeps them",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* Clone
        const db = yield* PluginDb
        const records = yield* RemovalRecords
        yield* admin(lease, [1n, "none"])
        yield* admin(lease, [1n, "verified"])
        yield* admin(lease, [2n, "none"])
        yield* admin(claim, [1n])
        yield* admin(claim, [2n])
        const projects = Effect.map(
          admin(`select project_id::int as p from plugin_sandbox.execution_leases
            union all select project_id::int from plugin_sandbox.repository_claims order by 1`),
          (rows) => rows.map((row) => row["p"])
        )
        const clear = records.clearLeases(ProjectId.make(1))
        yield* Effect.exit(db.transaction("test", Effect.andThen(clear, Effect.fail("no"))))
        assert.deepStrictEqual(yield* projects, [1, 1, 1, 2, 2])
        yield* db.transaction("test", clear)
        assert.deepStrictEqual(yield* projects, [2, 2])
      }).pipe(Effect.provide(layer), Effect.provide(clone()))
  )

  it.live(
    "FC-15 beyond the newest removed Projects receipts go, oldest first, but none that owes a machine",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* Clone
        const db = yield* PluginDb
        const records = yield* RemovalRecords
        // 200 removed Projects too many, with a stop and a delete each; then one that lives, and has more.
        yield* admin(
          `insert into plugin_sandbox.runtime_operations
            (id, project_id, initiator, action, request_key, generation, state, settled_at, owed)
          select gen_random_uuid(), n, 'system', action, action, 1, 'succeeded', now(),
            case when n = 2 and action = 'stop' then '{sb-x/1}'::text[] else '{}' end
          from generate_series(1, $1::int) n, unnest('{stop,delete}'::text[]) action order by n, action desc`,
          [removedProjectsKeptMax + 200]
        )
        yield* admin(
          `insert into plugin_sandbox.runtime_operations
            (id, project_id, initiator, action, request_key, generation, state, settled_at)
          select gen_random_uuid(), 1000000, 'user', 'stop', 'k' || n, 1, 'succeeded', now() from generate_series(1, 30) n`
        )
        const left = Effect.map(
          admin(`select count(*)::int as all, count(*) filter (where project_id <= 200)::int as old,
          count(*) filter (where project_id = 2)::int as owing, count(*) filter (where project_id = 1000000)::int as alive
          from plugin_sandbox.runtime_operations`),
          ([row]) => row
        )
        const trim = db.transaction("test", records.trimReceipts)
        const others = 2 * removedProjectsKeptMax + 30
        yield* trim
        const first = 400 - receiptsTrimmedMax
        assert.deepStrictEqual(yield* left, { all: others + first, old: first, owing: 2, alive: 30 })
        for (let pass = 0; pass < 5; pass += 1) yield* trim
        assert.deepStrictEqual(yield* left, { all: others + 2, old: 2, owing: 2, alive: 30 })
      }).pipe(Effect.provide(layer), Effect.provide(clone()))
  )
})
