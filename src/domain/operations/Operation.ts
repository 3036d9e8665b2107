/**
 * One durable lifecycle request on a runtime, its receipt, and the table of legal moves between its states. The
 * CHECK constraints of the baseline repeat the table; a test compares the two.
 */
import * as Schema from "effect/Schema"
import { Initiator } from "../host/Accounts.ts"
import { AccountId, Generation, OperationId, ProjectId, RequestKey } from "../Identity.ts"
import { MachineRecipe } from "../runtimes/Runtime.ts"

export const OperationAction = Schema.Literals([
  "provision",
  "start",
  "stop",
  "restart",
  "rebuild",
  "snapshot",
  "restore",
  "recover",
  "delete"
])
export type OperationAction = typeof OperationAction.Type

export const OperationState = Schema.Literals(["queued", "claimed", "succeeded", "failed", "superseded"])
export type OperationState = typeof OperationState.Type

/** Marks on a receipt from which a resumed operation reads how far it came; never the clock. Source: SP figures. */
export const OperationFlag = Schema.Literals([
  "creating",
  "removed",
  "stopped",
  "imported",
  "switched",
  "storage-removed"
])
export type OperationFlag = typeof OperationFlag.Type

/** What `provision` was asked for; empty for the other actions. Missing fields take the defaults of Bounds. */
export const OperationParameters = Schema.Struct({
  supervisor: Schema.optionalKey(Schema.String),
  image: Schema.optionalKey(Schema.String),
  cpuMillis: Schema.optionalKey(Schema.Int),
  memoryMebibytes: Schema.optionalKey(Schema.Int),
  processesMax: Schema.optionalKey(Schema.Int)
})
export type OperationParameters = typeof OperationParameters.Type

export class Operation extends Schema.Class<Operation>("holdfast/Operation")({
  /** Order of admission; recovery reads the oldest first. Source: SP-OPS-01. */
  rowId: Schema.Int,
  id: OperationId,
  project: ProjectId,
  account: Schema.NullOr(AccountId),
  initiator: Initiator,
  action: OperationAction,
  requestKey: RequestKey,
  generation: Generation,
  parameters: OperationParameters,
  state: OperationState,
  /** Written form of the claimant's process identity, or null. */
  claimedBy: Schema.NullOr(Schema.String),
  /** Grows with every claim; every write of an executor is conditional on it. Source: SP-OPS-06. */
  claimSequence: Schema.Int,
  step: Schema.NullOr(Schema.String),
  fraction: Schema.Finite,
  message: Schema.NullOr(Schema.String),
  flags: Schema.Array(OperationFlag),
  oldRecipe: Schema.NullOr(MachineRecipe),
  newRecipe: Schema.NullOr(MachineRecipe),
  /** What a delete removed and proved: paths and sentences. */
  result: Schema.NullOr(
    Schema.Struct({ paths: Schema.Array(Schema.String), proofs: Schema.Array(Schema.String) })
  ),
  errorCode: Schema.NullOr(Schema.String),
  errorText: Schema.NullOr(Schema.String),
  createdAtMillis: Schema.Int,
  settledAtMillis: Schema.NullOr(Schema.Int)
}) {}
