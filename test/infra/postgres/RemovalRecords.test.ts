/** What the removal clears beside the other stores, in the caller's transaction. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { RemovalRecords } from "../../../src/domain/removal/RemovalRecords.ts"
import { layer } from "../../../src/infra/postgres/RemovalRecords.ts"
import { Clone, clone } from "../../support/clone.ts"

const lease = `insert into plugin_sandbox.execution_leases (id, project_id, generation, process, label, cancel)
  values (gen_random_uuid(), $1::bigint, 1, 'p', 'sh', $2)`

describe("RemovalRecords", () => {
  it.live(
    "SP-DEL-10 clears every lease of the Project, tombstones too, and no other's; a rollback keeps them",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* Clone
        const db = yield* PluginDb
        const records = yield* RemovalRecords
        yield* admin(lease, [1n, "none"])
        yield* admin(lease, [1n, "verified"])
        yield* admin(lease, [2n, "none"])
        const projects = Effect.map(
          admin("select project_id::int as p from plugin_sandbox.execution_leases order by 1"),
          (rows) => rows.map((row) => row["p"])
        )
        const clear = records.clearLeases(ProjectId.make(1))
        yield* Effect.exit(db.transaction("test", Effect.andThen(clear, Effect.fail("no"))))
        assert.deepStrictEqual(yield* projects, [1, 1, 2])
        yield* db.transaction("test", clear)
        assert.deepStrictEqual(yield* projects, [2])
      }).pipe(Effect.provide(layer), Effect.provide(clone()))
  )
})
