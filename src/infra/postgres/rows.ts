/**
 * Reads rows of runtimes and operations into the domain's models, and runs a statement on whichever handle is open.
 * The driver gives bigint for int8, Date for timestamps and parsed JSON for jsonb. A row that cannot be read is a
 * defect: the schema's CHECKs and this product are its only writers, so somebody wrote around them.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Operation, OperationParameters, OperationResult } from "../../domain/operations/Operation.ts"
import type { OperationProgress } from "../../domain/operations/OperationEvents.ts"
import type { PreparedOperation } from "../../domain/operations/OperationStore.ts"
import {
  type PluginDb,
  PluginTx,
  type Query,
  type SqlRow,
  type StorageFailure,
  type TransactionEnded
} from "../../domain/persistence/PluginDb.ts"
import { MachineRecipe, Runtime } from "../../domain/runtimes/Runtime.ts"

const number = (value: unknown): number => Number(value as bigint | number)
const millis = (value: unknown): number | null => (value === null ? null : (value as Date).getTime())

const encodeRecipe = Schema.encodeSync(MachineRecipe)

/** A recipe as the jsonb text that is stored. */
export const recipeText = (value: MachineRecipe | null | undefined): string | null =>
  value === null || value === undefined ? null : JSON.stringify(encodeRecipe(value))

const decodeRecipe = Schema.decodeUnknownSync(MachineRecipe)
const recipeOf = (value: unknown): MachineRecipe | null => (value === null ? null : decodeRecipe(value))
const decodeParametersOf = Schema.decodeUnknownSync(OperationParameters)
/** Most operations have none. */
const noParameters: OperationParameters = decodeParametersOf({})
const decodeParameters = (value: unknown): OperationParameters =>
  typeof value === "object" && value !== null && Object.keys(value).length === 0
    ? noParameters
    : decodeParametersOf(value)
const decodeResult = Schema.decodeUnknownSync(OperationResult)

/**
 * A model from columns that the schema's types and CHECKs have validated when they were written: only JSON, which
 * they do not look into, is decoded. Decoding all of it again costs as much time as a tenth of a whole admission, and
 * to copy so many fields costs as much again: they become the model themselves.
 */
export const modelOf = <A extends object>(prototype: A, fields: Omit<A, "toString">): A =>
  Object.setPrototypeOf(fields, prototype)

/** What a Runtime is of its row. The figures of its samples are wide, and SampleStore reads them. */
export const runtimeColumns = `project_id, generation, sandbox_id, desired, observed, observed_reason, recipe,
  refresh_epoch, sample_started_at`

export const runtimeOf = (row: SqlRow): Runtime =>
  modelOf<Runtime>(Runtime.prototype, {
    project: number(row.project_id) as Runtime["project"],
    generation: number(row.generation) as Runtime["generation"],
    sandbox: row.sandbox_id as Runtime["sandbox"],
    desired: row.desired as Runtime["desired"],
    observed: row.observed as Runtime["observed"],
    observedReason: row.observed_reason as string | null,
    recipe: recipeOf(row.recipe),
    refreshEpoch: number(row.refresh_epoch),
    sampleStartedAtMillis: millis(row.sample_started_at)
  })

/** An operation of a row whose claimant is known already. */
export const operationHeldBy = (claimant: string | null, row: SqlRow): Operation =>
  modelOf<Operation>(Operation.prototype, {
    rowId: number(row.row_id),
    id: row.id as Operation["id"],
    project: number(row.project_id) as Operation["project"],
    account: row.account_id as Operation["account"],
    initiator: row.initiator as Operation["initiator"],
    action: row.action as Operation["action"],
    requestKey: row.request_key as Operation["requestKey"],
    generation: number(row.generation) as Operation["generation"],
    parameters: decodeParameters(row.parameters),
    state: row.state as Operation["state"],
    claimedBy: claimant,
    claimSequence: number(row.claim_sequence),
    step: row.step as string | null,
    fraction: row.fraction as number,
    message: row.message as string | null,
    flags: row.flags as Operation["flags"],
    oldRecipe: recipeOf(row.old_recipe),
    newRecipe: recipeOf(row.new_recipe),
    owed: row.owed as Operation["owed"],
    absences: row.absences as Operation["absences"],
    result: row.result === null ? null : decodeResult(row.result),
    errorCode: row.error_code as string | null,
    errorText: row.error_text as string | null,
    supersededBy: row.superseded_by as string | null,
    supersedeAskedBy: row.supersede_asked_by as string | null,
    createdAtMillis: (row.created_at as Date).getTime(),
    claimedAtMillis: millis(row.claimed_at),
    settledAtMillis: millis(row.settled_at)
  })

export const operationOf = (row: SqlRow): Operation => operationHeldBy(row.claimed_by as string | null, row)

/** An operation as admission has just written it: what was asked for, what the row was given, and its defaults. */
export const newOperationOf = (prepared: PreparedOperation, row: SqlRow): Operation =>
  modelOf<Operation>(Operation.prototype, {
    rowId: number(row.row_id),
    id: prepared.id,
    project: prepared.project,
    account: prepared.account,
    initiator: prepared.initiator,
    action: prepared.action,
    requestKey: prepared.requestKey,
    generation: number(row.generation) as Operation["generation"],
    parameters: prepared.parameters,
    state: "queued",
    claimedBy: null,
    claimSequence: 0,
    step: null,
    fraction: 0,
    message: null,
    flags: [],
    oldRecipe: null,
    newRecipe: null,
    owed: [],
    absences: [],
    result: null,
    errorCode: null,
    errorText: null,
    supersededBy: null,
    supersedeAskedBy: null,
    createdAtMillis: (row.created_at as Date).getTime(),
    claimedAtMillis: null,
    settledAtMillis: null
  })

/** Columns of what may leave the process of an operation's row. */
export const progressColumns = "project_id, id, action, state, step, fraction, message, error_code"

export const progressOfRow = (row: SqlRow): OperationProgress => ({
  project: number(row.project_id) as OperationProgress["project"],
  operation: row.id as OperationProgress["operation"],
  action: row.action as OperationProgress["action"],
  state: row.state as OperationProgress["state"],
  step: row.step as string | null,
  fraction: row.fraction as number,
  message: row.message as string | null,
  errorCode: row.error_code as string | null
})

export const firstOf = <A>(rows: ReadonlyArray<SqlRow>, read: (row: SqlRow) => A): Option.Option<A> => {
  const [row] = rows
  return row === undefined ? Option.none() : Option.some(read(row))
}

/**
 * Runs one statement in the caller's transaction when one is open in this fiber, else as its own transaction: a
 * single statement is the shortest there is, so nothing is gained by BEGIN and COMMIT around it. Source: SP-TX-06.
 */
export const joinOrOwn =
  (db: PluginDb["Service"]) =>
  (query: Query): Effect.Effect<ReadonlyArray<SqlRow>, StorageFailure | TransactionEnded> =>
    Effect.flatMap(
      Effect.serviceOption(PluginTx),
      (tx): Effect.Effect<ReadonlyArray<SqlRow>, StorageFailure | TransactionEnded> =>
        Option.isSome(tx) ? tx.value.query(query) : db.query(query)
    )
