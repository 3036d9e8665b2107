/**
 * Adapter of the root port of operations: each method is one statement, admission and claim are one function call
 * (migrations/0021_operations.ts). Admission is in admissions.ts, the writes inside transactions in OperationRows.ts.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { claimsBetweenFullWalksMax, nodeUnseenSeconds } from "../../domain/Bounds.ts"
import type { Operation } from "../../domain/operations/Operation.ts"
import {
  type Claimed,
  OperationStore,
  supersededByDeletion,
  supersededByUser,
  supersededOnceSeen,
  type TakenBack
} from "../../domain/operations/OperationStore.ts"
import { PluginDb, PluginTx, type SqlRow } from "../../domain/persistence/PluginDb.ts"
import { makeEnqueue } from "./admissions.ts"
import { accessRefusal } from "./HostAccounts.ts"
import { firstOf, operationHeldBy, operationOf, runtimeColumns, runtimeOf } from "./rows.ts"

/** Walks read the newest rows first from here when no page was given. */
const beyondEveryRow = Number.MAX_SAFE_INTEGER

const byAdmission = (left: Operation, right: Operation): number => left.rowId - right.rowId

/** Everything but the claimant, who asks. */
const claimText = `select row_id, id, project_id, account_id, initiator, action, request_key, generation, parameters,
    state, claim_sequence, step, fraction, message, flags, old_recipe, new_recipe, owed, absences, result, error_code,
    error_text, superseded_by, supersede_asked_by, created_at, claimed_at, settled_at
  from claim_operations($1::text, $2::uuid, $3::bigint, $4::int, $5::text, $6::text, $7::text, $8::text)`

/** The server answers rows of one statement in no order. */
const claimedOf = (process: string, rows: ReadonlyArray<SqlRow>): Claimed => {
  const claimed: Array<Operation> = []
  const superseded: Array<Operation> = []
  for (const row of rows) {
    if (row.state === "claimed") claimed.push(operationHeldBy(process, row))
    else superseded.push(operationHeldBy(null, row))
  }
  return { claimed: claimed.toSorted(byAdmission), superseded: superseded.toSorted(byAdmission) }
}

/**
 * Claims with a remembered lower bound: beside an old snapshot the queue keeps dead entries, and a walk from its
 * beginning grows with every operation ended meanwhile. What lies below the bound (put back, or committed late) is
 * found by a walk of the whole queue: whenever there is not enough above it, and every so many claims. Source: P6.
 */
const makeClaim = (db: PluginDb["Service"]): OperationStore["Service"]["claim"] => {
  let from = 0
  let sinceFullWalk = 0
  return (process, operationsMax) =>
    Effect.suspend(() => {
      sinceFullWalk = from === 0 || sinceFullWalk >= claimsBetweenFullWalksMax ? 0 : sinceFullWalk + 1
      const lowest = sinceFullWalk === 0 ? 0 : from
      return db.query({
        operation: "OperationStore.claim",
        text: claimText,
        parameters: [
          process.toString(),
          process.node,
          lowest,
          operationsMax,
          supersededByDeletion.code,
          supersededByDeletion.text,
          supersededOnceSeen.code,
          supersededOnceSeen.text
        ]
      })
    }).pipe(
      Effect.map((rows) => {
        const moved = claimedOf(process.toString(), rows)
        from = rows.length < operationsMax ? 0 : Math.max(0, ...moved.claimed.map(({ rowId }) => rowId))
        return moved
      })
    )
}

const takenBackOf = (row: SqlRow): TakenBack => {
  const { outcome } = row
  if (outcome === "superseded" || outcome === "asked" || outcome === "repeated" || outcome === "refused") {
    return { outcome, operation: operationOf(row) }
  }
  throw new Error("supersede_operation answered an outcome that this version does not know")
}

const takeBack =
  (db: PluginDb["Service"]): OperationStore["Service"]["takeBack"] =>
  (caller, { id, project }) =>
    db
      .query({
        operation: "OperationStore.takeBack",
        text: "select s.outcome, (s.operation).* from supersede_operation($1::uuid, $2::uuid, $3::text, $4::text, $5::int) s",
        parameters: [id, caller.account, supersededByUser.code, supersededByUser.text, nodeUnseenSeconds]
      })
      .pipe(
        Effect.map((rows) => firstOf(rows, takenBackOf)),
        Effect.mapError(accessRefusal(caller, project))
      )

const overviewText = {
  runtime: `select ${runtimeColumns} from runtimes where project_id = $1::bigint`,
  live: `select o.* from live_operations l join runtime_operations o on o.row_id = l.row_id
    where l.project_id = $1::bigint`,
  newest: `select * from runtime_operations where project_id = $1::bigint and row_id < $2::bigint
    order by row_id desc limit $3::int`,
  newestOfAccount: `select * from runtime_operations where account_id = $1::uuid and row_id < $2::bigint
    order by row_id desc limit $3::int`
}

const readOverview = (project: number, receipts: number) =>
  Effect.gen(function* () {
    const tx = yield* PluginTx
    const read = (text: string, more: ReadonlyArray<unknown> = []) =>
      tx.query({ operation: "OperationStore.overview", text, parameters: [project, ...more] })
    return {
      runtime: firstOf(yield* read(overviewText.runtime), runtimeOf),
      live: firstOf(yield* read(overviewText.live), operationOf),
      newest: (yield* read(overviewText.newest, [beyondEveryRow, receipts])).map(operationOf)
    }
  }).pipe(
    Effect.catchTag("TransactionEnded", () =>
      Effect.die(new Error("the snapshot of an overview ended before its last read"))
    )
  )

export const layer: Layer.Layer<OperationStore, never, PluginDb> = Layer.effect(
  OperationStore,
  Effect.gen(function* () {
    const db = yield* PluginDb
    const enqueue = yield* makeEnqueue(db)
    const read = (operation: string, text: string, parameters: ReadonlyArray<unknown>) =>
      Effect.map(db.query({ operation, text, parameters }), (rows) => rows.map(operationOf))
    return OperationStore.of({
      enqueue,
      claim: makeClaim(db),
      takeBack: takeBack(db),
      claimed: ({ afterRow, limit, node }) =>
        read(
          "OperationStore.claimed",
          `select o.* from live_operations l join runtime_operations o on o.row_id = l.row_id
            where l.row_id > $1::bigint and (l.node_id is null or l.node_id = $3::uuid) and o.state = 'claimed' order by l.row_id limit $2::int`,
          [afterRow, limit, node]
        ),
      requeueIfClaimedBy: ({ rowId, claimedBy, claimSequence }) =>
        Effect.map(
          db.query({
            operation: "OperationStore.requeueIfClaimedBy",
            text: `update runtime_operations set state = 'queued', claimed_by = null, claimed_at = null
              where row_id = $1::bigint and state = 'claimed' and claimed_by = $2::text
                and claim_sequence = $3::bigint returning row_id`,
            parameters: [rowId, claimedBy, claimSequence]
          }),
          (rows) => rows.length > 0
        ),
      byId: (id) =>
        Effect.map(
          db.query({
            operation: "OperationStore.byId",
            text: "select * from runtime_operations where id = $1::uuid",
            parameters: [id]
          }),
          (rows) => firstOf(rows, operationOf)
        ),
      newestOfProject: (project, { limit, beforeRow }) =>
        read("OperationStore.newestOfProject", overviewText.newest, [
          project,
          beforeRow ?? beyondEveryRow,
          limit
        ]),
      newestOfAccount: (account, { limit, beforeRow }) =>
        read("OperationStore.newestOfAccount", overviewText.newestOfAccount, [
          account,
          beforeRow ?? beyondEveryRow,
          limit
        ]),
      overview: (project, receipts) => db.snapshot("OperationStore.overview", readOverview(project, receipts))
    })
  })
)
