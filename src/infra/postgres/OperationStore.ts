/**
 * Adapter of the root port of operations: each method is one statement, admission and claim are one function call
 * (migrations/0021_operations.ts). The writes inside transactions are in OperationRows.ts.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { claimsBetweenFullWalksMax, claimSupersededMax, nodeUnseenSeconds } from "../../domain/Bounds.ts"
import type { AccessRefused } from "../../domain/host/Accounts.ts"
import { ProjectNotActive } from "../../domain/host/Projects.ts"
import { Generation, type ProcessIdentity } from "../../domain/Identity.ts"
import type { Operation } from "../../domain/operations/Operation.ts"
import {
  type Claimed,
  type Enqueued,
  OperationStore,
  type PreparedOperation,
  supersededByDeletion,
  supersededByRequest,
  supersededByUser,
  supersededOnceSeen,
  type TakenBack
} from "../../domain/operations/OperationStore.ts"
import { PluginDb, PluginTx, type SqlRow, type StorageFailure } from "../../domain/persistence/PluginDb.ts"
import { accessRefusal } from "./HostAccounts.ts"
import { projectNotActiveState } from "./HostProjects.ts"
import { firstOf, operationOf, runtimeColumns, runtimeOf } from "./rows.ts"

/** Walks read the newest rows first from here when no page was given. */
const beyondEveryRow = Number.MAX_SAFE_INTEGER

const enqueueText = `select e.outcome, e.actual, e.expected, (e.operation).* from enqueue_operation($1::uuid, $2::bigint,
  $3::uuid, $4::text, $5::text, $6::text, $7::bigint, $8::text::jsonb, $9::text, $10::text) e`

const enqueueParameters = (prepared: PreparedOperation): ReadonlyArray<unknown> => [
  prepared.id,
  prepared.project,
  prepared.account,
  prepared.initiator,
  prepared.action,
  prepared.requestKey,
  prepared.expectedGeneration,
  JSON.stringify(prepared.parameters),
  supersededByRequest.code,
  supersededByRequest.text
]

/** The guards of the host raise inside the function; here they are refusals again. The system has no account. */
const guardRefusal =
  ({ account, project }: PreparedOperation) =>
  (failure: StorageFailure): ProjectNotActive | AccessRefused | StorageFailure => {
    if (failure.state === projectNotActiveState) return new ProjectNotActive({ project })
    return account === null ? failure : accessRefusal({ account }, project)(failure)
  }

/** The last row is the answer; what stands before it was superseded. */
const enqueuedOf = (rows: ReadonlyArray<SqlRow>): Enqueued => {
  const answer = rows.at(-1)
  switch (answer?.outcome) {
    case "admitted":
    case "repeated":
    case "rearmed":
      return {
        outcome: answer.outcome,
        operation: operationOf(answer),
        superseded: rows.slice(0, -1).map(operationOf)
      }
    case "key_conflict":
    case "in_progress":
      return { outcome: answer.outcome, operation: operationOf(answer) }
    case "generation_conflict":
      return {
        outcome: answer.outcome,
        actual: Generation.make(Number(answer.actual)),
        expected: Generation.make(Number(answer.expected))
      }
    case "not_provisioned":
    case "already_provisioned":
      return { outcome: answer.outcome }
    default:
      throw new Error("enqueue_operation answered an outcome that this version does not know")
  }
}

const claimText = `select * from claim_operation(
  $1::text, $2::uuid, $3::bigint, $4::int, $5::text, $6::text, $7::text, $8::text)`

const claimedOf = (rows: ReadonlyArray<SqlRow>): Claimed => {
  const operations = rows.map(operationOf)
  const last = operations.at(-1)
  return last?.state === "claimed"
    ? { claimed: Option.some(last), superseded: operations.slice(0, -1) }
    : { claimed: Option.none(), superseded: operations }
}

/**
 * Claims with a remembered lower bound: beside an old snapshot the queue keeps dead entries, and a walk from its
 * beginning grows with every operation ended meanwhile. What lies below the bound (put back, or committed late) is
 * found by a walk of the whole queue: whenever the short one is empty, and every so many claims. Source: P6.
 */
const makeClaimNext = (db: PluginDb["Service"]): OperationStore["Service"]["claimNext"] => {
  let from = 0
  let sinceFullWalk = 0
  const claimFrom = (process: ProcessIdentity, lowest: number) =>
    db
      .query({
        operation: "OperationStore.claimNext",
        text: claimText,
        parameters: [
          process.toString(),
          process.node,
          lowest,
          claimSupersededMax,
          supersededByDeletion.code,
          supersededByDeletion.text,
          supersededOnceSeen.code,
          supersededOnceSeen.text
        ]
      })
      .pipe(Effect.map(claimedOf))
  return Effect.fnUntraced(function* (process) {
    const superseded: Array<Operation> = []
    while (true) {
      sinceFullWalk = from === 0 || sinceFullWalk >= claimsBetweenFullWalksMax ? 0 : sinceFullWalk + 1
      const lowest = sinceFullWalk === 0 ? 0 : from
      const claim = yield* claimFrom(process, lowest)
      superseded.push(...claim.superseded)
      from = Option.match(claim.claimed, { onNone: () => 0, onSome: ({ rowId }) => rowId })
      const ended =
        Option.isSome(claim.claimed) || (lowest === 0 && claim.superseded.length <= claimSupersededMax)
      if (ended) return { claimed: claim.claimed, superseded }
    }
  })
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
  Effect.map(PluginDb, (db) => {
    const read = (operation: string, text: string, parameters: ReadonlyArray<unknown>) =>
      Effect.map(db.query({ operation, text, parameters }), (rows) => rows.map(operationOf))
    return OperationStore.of({
      enqueue: (prepared) =>
        db
          .query({
            operation: "OperationStore.enqueue",
            text: enqueueText,
            parameters: enqueueParameters(prepared)
          })
          .pipe(Effect.map(enqueuedOf), Effect.mapError(guardRefusal(prepared))),
      claimNext: makeClaimNext(db),
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
