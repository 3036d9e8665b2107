/**
 * Admission on the schema: a statement of its own, which is the rule, or one that it shares with other admissions which
 * wait anyway and to which nothing objects. Source: SP-ADM.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { AccessRefused } from "../../domain/host/Accounts.ts"
import { ProjectNotActive } from "../../domain/host/Projects.ts"
import { Generation } from "../../domain/Identity.ts"
import {
  type Enqueued,
  type OperationStore,
  type PreparedOperation,
  supersededByRequest
} from "../../domain/operations/OperationStore.ts"
import type { PluginDb, SqlRow, StorageFailure } from "../../domain/persistence/PluginDb.ts"
import { accessRefusal } from "./HostAccounts.ts"
import { projectNotActiveState } from "./HostProjects.ts"
import { newOperationOf, operationOf } from "./rows.ts"
import { columnOf, makeSharedCalls } from "./sharedCalls.ts"

const enqueueText = `select e.outcome, e.actual, e.expected, e.admitted_row, e.admitted_at, (e.operation).*
  from enqueue_operation($1::uuid, $2::bigint, $3::uuid, $4::text, $5::text, $6::text, $7::bigint, $8::text::jsonb,
    $9::text, $10::text) e`

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
const enqueuedOf = (prepared: PreparedOperation, rows: ReadonlyArray<SqlRow>): Enqueued => {
  const answer = rows.at(-1)
  switch (answer?.outcome) {
    case "admitted":
      return {
        outcome: "admitted",
        operation: newOperationOf(prepared, {
          row_id: answer.admitted_row,
          generation: answer.actual,
          created_at: answer.admitted_at
        }),
        superseded: rows.slice(0, -1).map(operationOf)
      }
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

const enqueue = (db: PluginDb["Service"]) => (prepared: PreparedOperation) =>
  db
    .query({
      operation: "OperationStore.enqueue",
      text: enqueueText,
      parameters: enqueueParameters(prepared)
    })
    .pipe(
      Effect.map((rows) => enqueuedOf(prepared, rows)),
      Effect.mapError(guardRefusal(prepared))
    )

const enqueueManyText = `select id, row_id, generation, created_at from enqueue_operations($1::uuid[], $2::bigint[],
  $3::uuid[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[])`

const admittedOf = (prepared: PreparedOperation, row: SqlRow): Enqueued => ({
  outcome: "admitted",
  operation: newOperationOf(prepared, row),
  superseded: []
})

const enqueueMany =
  (db: PluginDb["Service"]) =>
  (asked: ReadonlyArray<PreparedOperation>): Effect.Effect<ReadonlyMap<number, Enqueued>, StorageFailure> =>
    Effect.map(
      db.query({
        operation: "OperationStore.enqueueMany",
        text: enqueueManyText,
        parameters: [
          asked.map(({ id }) => id),
          asked.map(({ project }) => BigInt(project)),
          columnOf(asked, ({ account }) => account),
          asked.map(({ initiator }) => initiator),
          asked.map(({ action }) => action),
          asked.map(({ requestKey }) => requestKey),
          columnOf(asked, ({ expectedGeneration }) =>
            expectedGeneration === null ? null : BigInt(expectedGeneration)
          ),
          asked.map(({ parameters }) => JSON.stringify(parameters))
        ]
      }),
      (rows) => {
        const byId = new Map(rows.map((row) => [row["id"], row]))
        return new Map(
          asked.flatMap((prepared) => {
            const row = byId.get(prepared.id)
            return row === undefined ? [] : [[prepared.project, admittedOf(prepared, row)]]
          })
        )
      }
    )

/** Admission, as the port has it. */
export const makeEnqueue = (
  db: PluginDb["Service"]
): Effect.Effect<OperationStore["Service"]["enqueue"], never, Scope.Scope> =>
  makeSharedCalls({
    alone: enqueue(db),
    together: enqueueMany(db),
    subjectOf: ({ project }: PreparedOperation) => project
  })
