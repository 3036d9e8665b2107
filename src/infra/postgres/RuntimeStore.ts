/**
 * Adapter of RuntimeStore: one statement a method, written once for the root handle and for a transaction's own.
 * A bound read takes a row lock unless the transaction is read-only.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  type InsideTransaction,
  PluginDb,
  PluginTx,
  type Query,
  type SqlRow
} from "../../domain/persistence/PluginDb.ts"
import { Processes } from "../../domain/Processes.ts"
import {
  type BoundRuntimeStore,
  RuntimeStore,
  type RuntimeStatements
} from "../../domain/runtimes/RuntimeStore.ts"
import { firstOf, recipeText, runtimeOf } from "./rows.ts"

type Run<E> = (query: Query) => Effect.Effect<ReadonlyArray<SqlRow>, E>

const makeStatements = <E>(run: Run<E>, locking: boolean): RuntimeStatements<E> => {
  const moved = (operation: string, text: string, parameters: ReadonlyArray<unknown>) =>
    Effect.map(run({ operation, text, parameters }), (rows) => rows.length > 0)
  return {
    runtime: (project) =>
      Effect.map(
        run({
          operation: "RuntimeStore.runtime",
          text: `select * from runtimes where project_id = $1::bigint${locking ? " for update" : ""}`,
          parameters: [project]
        }),
        (rows) => firstOf(rows, runtimeOf)
      ),
    createIfMissing: (project) =>
      moved(
        "RuntimeStore.createIfMissing",
        "insert into runtimes (project_id) values ($1::bigint) on conflict do nothing returning project_id",
        [project]
      ),
    setDesired: (project, { generation, desired }) =>
      moved(
        "RuntimeStore.setDesired",
        `update runtimes set desired = $3::text, changed_at = now()
          where project_id = $1::bigint and generation = $2::bigint returning project_id`,
        [project, generation, desired]
      ),
    observe: (project, { generation, observed, reason }) =>
      moved(
        "RuntimeStore.observe",
        `update runtimes set observed = $3::text, observed_reason = $4::text, changed_at = now()
          where project_id = $1::bigint and generation = $2::bigint returning project_id`,
        [project, generation, observed, reason]
      ),
    saveRecipe: (project, { generation, recipe }) =>
      moved(
        "RuntimeStore.saveRecipe",
        `update runtimes
          set recipe = $3::text::jsonb, node_id = $4::uuid, sandbox_id = $5::text, changed_at = now()
          where project_id = $1::bigint and generation = $2::bigint returning project_id`,
        [project, generation, recipeText(recipe), recipe.node, recipe.sandbox]
      ),
    replaceMachine: (project, { from, recipe }) =>
      moved(
        "RuntimeStore.replaceMachine",
        `update runtimes
          set generation = $3::bigint, recipe = $4::text::jsonb, node_id = $5::uuid, sandbox_id = $6::text,
            changed_at = now()
          where project_id = $1::bigint and generation = $2::bigint and $3::bigint = $2::bigint + 1
          returning project_id`,
        [project, from, recipe.generation, recipeText(recipe), recipe.node, recipe.sandbox]
      ),
    remove: (project, generation) =>
      moved(
        "RuntimeStore.remove",
        "delete from runtimes where project_id = $1::bigint and generation = $2::bigint returning project_id",
        [project, generation]
      )
  }
}

const bind = (body: (store: BoundRuntimeStore) => Effect.Effect<unknown, unknown, unknown>) =>
  Effect.flatMap(PluginTx, (tx) => body(makeStatements(tx.query, !tx.readOnly)))

/** Same body type in and out: `bind` adds only PluginTx, which the transaction provides. */
const bound = <A, E, R>(
  body: (store: BoundRuntimeStore) => Effect.Effect<A, E, R> & InsideTransaction<R>
): Effect.Effect<A, E, R | PluginTx> & InsideTransaction<R | PluginTx> =>
  bind(body as never) as unknown as Effect.Effect<A, E, R | PluginTx> & InsideTransaction<R | PluginTx>

/** The store of this process on the given database. Source: SP-TX-01. */
export const layer: Layer.Layer<RuntimeStore, never, PluginDb | Processes> = Layer.effect(
  RuntimeStore,
  Effect.gen(function* () {
    const db = yield* PluginDb
    const { current } = yield* Processes
    return RuntimeStore.of({
      ...makeStatements(db.query, false),
      process: current,
      transaction: (operation, body) => db.transaction(operation, bound(body)) as never,
      snapshot: (operation, body) => db.snapshot(operation, bound(body)) as never,
      registerNode: ({ id, name }) =>
        Effect.asVoid(
          db.query({
            operation: "RuntimeStore.registerNode",
            text: `insert into nodes (id, name) values ($1::uuid, $2::text)
              on conflict (id) do update set name = excluded.name, last_seen_at = now()`,
            parameters: [id, name]
          })
        ),
      page: ({ after, limit }) =>
        Effect.map(
          db.query({
            operation: "RuntimeStore.page",
            text: "select * from runtimes where project_id > $1::bigint order by project_id limit $2::int",
            parameters: [after, limit]
          }),
          (rows) => rows.map(runtimeOf)
        )
    } as RuntimeStore["Service"])
  })
)
