/**
 * Adapter of RuntimeStore: one statement a method, written once for the root handle and for a transaction's own.
 * A bound read takes a row lock unless the transaction is read-only.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { nodesMax } from "../../domain/Bounds.ts"
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
  NodesFull,
  RuntimeStore,
  type RuntimeStatements
} from "../../domain/runtimes/RuntimeStore.ts"
import { firstOf, recipeText, runtimeColumns, runtimeOf } from "./rows.ts"
import { tableFullState } from "./storageFailure.ts"

type Run<E> = (query: Query) => Effect.Effect<ReadonlyArray<SqlRow>, E>

/** The row that the caller saw, and no later one. */
const seen = "where project_id = $1::bigint and generation = $2::bigint returning project_id"

/** What was measured of a machine says nothing any more once it is another one, or observed as something else. */
const epochAfter = (changed: string): string =>
  `refresh_epoch = refresh_epoch + (${changed})::int, changed_at = now()`

const createText =
  "insert into runtimes (project_id) values ($1::bigint) on conflict do nothing returning project_id"

const beginText = `update runtimes set desired = $3::text, observed = coalesce($4::text, observed),
  recovery_attempts = case when $5::boolean then 0 else recovery_attempts end,
  recovery_due_at = case when $5::boolean then null else recovery_due_at end,
  observed_reason = case when $4::text is null then observed_reason end,
  ${epochAfter("coalesce($4::text, observed) <> observed")} ${seen}`

const observeText = `update runtimes set observed = $3::text, observed_reason = $4::text,
  ${epochAfter("observed <> $3::text")} where project_id = $1::bigint and generation = $2::bigint
    and ($5::bigint is null or refresh_epoch = $5::bigint) returning project_id`

/** The machine is now of its node, and so is what was queued for it before anybody knew. Source: FC-13. */
const withItsQueue = (moved: string): string => `with moved as (${moved}, node_id), queued as (
    update live_operations l set node_id = moved.node_id from moved
      where l.project_id = moved.project_id and l.node_id is distinct from moved.node_id)
  select project_id from moved`

const saveRecipeText = withItsQueue(`update runtimes set recipe = $3::text::jsonb, node_id = $4::uuid,
  sandbox_id = $5::text, changed_at = now() ${seen}`)

const replaceText = withItsQueue(`update runtimes set generation = $3::bigint, recipe = $4::text::jsonb,
  node_id = $5::uuid, sandbox_id = $6::text, ${epochAfter("true")}
  where project_id = $1::bigint and generation = $2::bigint and $3::bigint = $2::bigint + 1
  returning project_id`)

const makeStatements = <E>(run: Run<E>, locking: boolean): RuntimeStatements<E> => {
  const moved = (operation: string, text: string, parameters: ReadonlyArray<unknown>) =>
    Effect.map(run({ operation: `RuntimeStore.${operation}`, text, parameters }), (rows) => rows.length > 0)
  return {
    runtime: (project) =>
      Effect.map(
        run({
          operation: "RuntimeStore.runtime",
          text: `select ${runtimeColumns} from runtimes where project_id = $1::bigint${locking ? " for update" : ""}`,
          parameters: [project]
        }),
        (rows) => firstOf(rows, runtimeOf)
      ),
    createIfMissing: (project) => moved("createIfMissing", createText, [project]),
    begin: (project, { generation, desired, isManual, observedMeanwhile }) =>
      moved("begin", beginText, [project, generation, desired, observedMeanwhile, isManual]),
    observe: (project, { generation, observed, reason, refreshEpoch }) =>
      moved("observe", observeText, [project, generation, observed, reason, refreshEpoch ?? null]),
    saveRecipe: (project, { generation, recipe }) =>
      moved("saveRecipe", saveRecipeText, [
        project,
        generation,
        recipeText(recipe),
        recipe.node,
        recipe.sandbox
      ]),
    replaceMachine: (project, { from, recipe }) =>
      moved("replaceMachine", replaceText, [
        project,
        from,
        recipe.generation,
        recipeText(recipe),
        recipe.node,
        recipe.sandbox
      ]),
    remove: (project, generation) => moved("remove", `delete from runtimes ${seen}`, [project, generation])
  }
}

/** The body with its store. PluginTx reaches nowhere outside, so what is allowed inside without it is so with it. */
const bound = <A, E, R>(body: (store: BoundRuntimeStore) => Effect.Effect<A, E, R> & InsideTransaction<R>) =>
  Effect.flatMap(PluginTx, (tx): Effect.Effect<A, E, R> =>
    body(makeStatements(tx.query, !tx.readOnly))
  ) as Effect.Effect<A, E, R | PluginTx> & InsideTransaction<R | PluginTx>

/** The store of this process on the given database. Source: SP-TX-01. */
export const layer: Layer.Layer<RuntimeStore, never, PluginDb | Processes> = Layer.effect(
  RuntimeStore,
  Effect.gen(function* () {
    const db = yield* PluginDb
    const { current } = yield* Processes
    return RuntimeStore.of({
      ...makeStatements(db.query, false),
      process: current,
      transaction: (operation, body) => db.transaction(operation, bound(body)),
      snapshot: (operation, body) => db.snapshot(operation, bound(body)),
      registerNode: ({ id, name }) =>
        db
          .query({
            operation: "RuntimeStore.registerNode",
            text: `insert into nodes (id, name) values ($1::uuid, $2::text)
              on conflict (id) do update set name = excluded.name, last_seen_at = now()`,
            parameters: [id, name]
          })
          .pipe(
            Effect.asVoid,
            Effect.mapError((failure) =>
              failure.state === tableFullState ? new NodesFull({ node: id, nodesMax }) : failure
            )
          ),
      idlePage: ({ after, limit }) =>
        Effect.map(
          db.query({
            operation: "RuntimeStore.idlePage",
            text: `select ${runtimeColumns} from runtimes r where project_id > $1::bigint
              and not exists (select from live_operations l where l.project_id = r.project_id)
              order by project_id limit $2::int`,
            parameters: [after, limit]
          }),
          (rows) => rows.map(runtimeOf)
        )
    })
  })
)
