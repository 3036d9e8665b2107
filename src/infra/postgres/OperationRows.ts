/**
 * Adapter of the operations' rows inside transactions, and of an executor's writes, which join the caller's
 * transaction or are one statement of their own; the end of an operation is in settlement.ts. Every executor's write compares the claimant and its sequence.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { receiptAbsencesKeptMax } from "../../domain/Bounds.ts"
import { describeProof } from "../../domain/guests/AbsenceProof.ts"
import { machineOf, type Operation } from "../../domain/operations/Operation.ts"
import { type ClaimLost, type HeldClaim, OperationRows } from "../../domain/operations/OperationStore.ts"
import { PluginDb, PluginTx, type SqlRow } from "../../domain/persistence/PluginDb.ts"
import type { MachineRecipe } from "../../domain/runtimes/Runtime.ts"
import { queueSights } from "./queueSights.ts"
import { firstOf, joinOrOwn, operationOf, recipeText } from "./rows.ts"
import { lostClaim, makeSettle } from "./settlement.ts"

type Service = OperationRows["Service"]

/** A statement of the caller's transaction; a locking one only where the transaction may write. Source: SP-TX-04. */
const inTx = (operation: string, text: string, parameters: ReadonlyArray<unknown>, locking = "") =>
  Effect.flatMap(PluginTx, (tx) =>
    tx.query({ operation, text: tx.readOnly ? text : `${text}${locking}`, parameters })
  )

const moved = (rows: ReadonlyArray<SqlRow>): boolean => rows.length > 0

const boundReads: Pick<Service, "absences" | "byKey" | "live" | "newest" | "owing"> = {
  absences: (project) =>
    inTx(
      "OperationRows.absences",
      `select sentence from runtime_operations, unnest(absences) with ordinality as kept (sentence, place)
        where project_id = $1::bigint order by row_id, place`,
      [project]
    ).pipe(Effect.map((rows) => rows.map((row) => String(row["sentence"])))),
  byKey: (project, key) =>
    inTx(
      "OperationRows.byKey",
      "select * from runtime_operations where project_id = $1::bigint and request_key = $2::text",
      [project, key],
      " for update"
    ).pipe(Effect.map((rows) => firstOf(rows, operationOf))),
  // The state is asked for too: a row that was settled while we waited for its lock is not live any more.
  live: (project) =>
    inTx(
      "OperationRows.live",
      `select o.* from live_operations l join runtime_operations o on o.row_id = l.row_id
        where l.project_id = $1::bigint and o.state in ('queued', 'claimed')`,
      [project],
      " for update of o"
    ).pipe(Effect.map((rows) => firstOf(rows, operationOf))),
  newest: (project, limit) =>
    inTx(
      "OperationRows.newest",
      "select * from runtime_operations where project_id = $1::bigint order by row_id desc limit $2::int",
      [project, limit]
    ).pipe(Effect.map((rows) => rows.map(operationOf))),
  owing: (project) =>
    inTx(
      "OperationRows.owing",
      `select * from runtime_operations where project_id = $1::bigint and owed <> '{}' order by row_id`,
      [project]
    ).pipe(Effect.map((rows) => rows.map(operationOf)))
}

/** The live row of an operation that was just queued, as `enqueue_operation` makes it. */
const liveRowOf = (queued: string): string => `select q.project_id, q.row_id,
  coalesce((select node_id from runtimes r where r.project_id = q.project_id), node_of_owed_machine(q.project_id))
  from ${queued} q`

const boundWrites: Pick<Service, "insert" | "rearm" | "supersedeQueued"> = {
  insert: (prepared, generation) =>
    inTx(
      "OperationRows.insert",
      `with inserted as (
        insert into runtime_operations
          (id, project_id, account_id, initiator, action, request_key, generation, parameters)
          values ($1::uuid, $2::bigint, $3::uuid, $4::text, $5::text, $6::text, $7::bigint, $8::text::jsonb)
          returning *
      ), live as (
        insert into live_operations (project_id, row_id, node_id) ${liveRowOf("inserted")}
      ) select * from inserted`,
      [
        prepared.id,
        prepared.project,
        prepared.account,
        prepared.initiator,
        prepared.action,
        prepared.requestKey,
        generation,
        JSON.stringify(prepared.parameters)
      ]
    ).pipe(Effect.map((rows) => operationOf(rows[0] as SqlRow))),
  rearm: (id) =>
    inTx(
      "OperationRows.rearm",
      `with rearmed as (
        update runtime_operations
          set state = 'queued', settled_at = null, error_code = null, error_text = null, supersede_asked_by = null
          where id = $1::uuid and state = 'failed' returning project_id, row_id
      ) insert into live_operations (project_id, row_id, node_id) ${liveRowOf("rearmed")} returning row_id`,
      [id]
    ).pipe(Effect.map(moved)),
  supersedeQueued: (id, { by, code, text }) =>
    inTx(
      "OperationRows.supersedeQueued",
      `with superseded as (
        update runtime_operations
          set state = 'superseded', settled_at = now(), error_code = $2::text, error_text = $3::text,
            superseded_by = $4::text
          where id = $1::uuid and state = 'queued' returning project_id
      ) delete from live_operations where project_id in (select project_id from superseded) returning row_id`,
      [id, code, text, by]
    ).pipe(Effect.map(moved))
}

const held = (claim: HeldClaim, rows: ReadonlyArray<SqlRow>): Effect.Effect<Operation, ClaimLost> => {
  const [row] = rows
  return row === undefined ? Effect.fail(lostClaim(claim)) : Effect.succeed(operationOf(row))
}

const machinesOf = (recipe: MachineRecipe | undefined): ReadonlyArray<string> =>
  recipe === undefined ? [] : [machineOf(recipe)]

/**
 * A new recipe that the runtime's row holds already is not owed by the receipt; an old one always is, since the row
 * is about to lose it. So every recipe is in one of the two places.
 */
const saveProgressText = `update runtime_operations o
  set step = $4::text, fraction = $5::float8, message = $6::text, flags = $7::text[],
    old_recipe = coalesce($8::text::jsonb, old_recipe), new_recipe = coalesce($9::text::jsonb, new_recipe),
    owed = owed || array(
      select machine from (
        select unnest($10::text[]) as machine
        union
        select machine from unnest($11::text[]) as given (machine)
          where not exists (select from runtimes r where r.project_id = o.project_id
            and r.sandbox_id || '/' || (r.recipe ->> 'generation') = machine)
      ) wanted where machine <> all (owed))
  where row_id = $1::bigint and state = 'claimed' and claimed_by = $2::text and claim_sequence = $3::bigint
  returning *`

const saveStepText = `update runtime_operations
  set step = $4::text, fraction = $5::float8, message = $6::text, flags = $7::text[]
  where row_id = $1::bigint and state = 'claimed' and claimed_by = $2::text and claim_sequence = $3::bigint
  returning *`

const saveProgress =
  (run: ReturnType<typeof joinOrOwn>): Service["saveProgress"] =>
  (claim, { step, fraction, message, flags, oldRecipe, newRecipe }) => {
    const plain = oldRecipe === undefined && newRecipe === undefined
    const parameters = [claim.rowId, claim.claimedBy, claim.claimSequence, step, fraction, message, flags]
    const recipes = [
      recipeText(oldRecipe),
      recipeText(newRecipe),
      machinesOf(oldRecipe),
      machinesOf(newRecipe)
    ]
    return run({
      operation: "OperationRows.saveProgress",
      text: plain ? saveStepText : saveProgressText,
      parameters: plain ? parameters : [...parameters, ...recipes]
    }).pipe(Effect.flatMap((rows) => held(claim, rows)))
  }

export const layer: Layer.Layer<OperationRows, never, PluginDb> = Layer.effect(
  OperationRows,
  Effect.gen(function* () {
    const db = yield* PluginDb
    const run = joinOrOwn(db)
    const settle = yield* makeSettle(db)
    return OperationRows.of({
      ...boundReads,
      ...boundWrites,
      saveProgress: saveProgress(run),
      settle,
      queueSights: queueSights(run),
      recordAbsence: (project, proof) =>
        Effect.asVoid(
          run({
            operation: "OperationRows.recordAbsence",
            text: `update runtime_operations
              set owed = array_remove(owed, $2::text), absences = (array[$3::text] || absences)[1:$4::int]
              where project_id = $1::bigint and $2::text = any (owed)`,
            parameters: [project, machineOf(proof), describeProof(proof), receiptAbsencesKeptMax]
          })
        )
    })
  })
)
