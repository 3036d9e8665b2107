/**
 * One durable lifecycle request on a runtime, its receipt, and the table of legal moves between its states. The
 * CHECK constraints of the baseline repeat the table; a test compares the two.
 */
import * as Schema from "effect/Schema"
import { Initiator } from "../host/Accounts.ts"
import { AccountId, Generation, OperationId, ProjectId, RequestKey, SnapshotId } from "../Identity.ts"
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

/** States of an operation that a runtime can have one of at a time. Source: SP-ADM-09. */
export const liveStates: ReadonlyArray<OperationState> = ["queued", "claimed"]

/** States in which an operation is a receipt: only `failed` is ever left again, by re-arming. */
export const settledStates: ReadonlyArray<OperationState> = ["succeeded", "failed", "superseded"]

/** Which event leads from which states where. Every statement that changes a state repeats its row as a condition. */
export const operationMoves = {
  claim: { from: ["queued"], to: "claimed" },
  /** Given back unfinished, by its holder or because its holder is dead. */
  release: { from: ["claimed"], to: "queued" },
  succeed: { from: ["claimed"], to: "succeeded" },
  fail: { from: ["claimed"], to: "failed" },
  /** A queued one by another request or a closed Project, a claimed one by its own executor. */
  supersede: { from: ["queued", "claimed"], to: "superseded" },
  /** A failed receipt asked for again with its own key. */
  rearm: { from: ["failed"], to: "queued" }
} as const satisfies Record<
  string,
  { readonly from: ReadonlyArray<OperationState>; readonly to: OperationState }
>
export type OperationEvent = keyof typeof operationMoves

/** The state after the event, or null where the event is no legal move from there. */
export const move = (state: OperationState, event: OperationEvent): OperationState | null => {
  const from: ReadonlyArray<OperationState> = operationMoves[event].from
  return from.includes(state) ? operationMoves[event].to : null
}

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

/**
 * What `provision` and `rebuild` were asked to build, and which snapshot `snapshot` and `restore` are about; empty for
 * the other actions. Missing fields of a machine take the defaults of Bounds.
 */
export const OperationParameters = Schema.Struct({
  supervisor: Schema.optionalKey(Schema.String),
  image: Schema.optionalKey(Schema.String),
  cpuMillis: Schema.optionalKey(Schema.Int),
  memoryMebibytes: Schema.optionalKey(Schema.Int),
  processesMax: Schema.optionalKey(Schema.Int),
  snapshot: Schema.optionalKey(SnapshotId),
  /** Host directory that becomes the workspace and stays the host's; administrators ask for it. Source: SP-DEL-07. */
  adoptDisk: Schema.optionalKey(Schema.String)
})
export type OperationParameters = typeof OperationParameters.Type

/** Parameters that say how a machine is built. */
export const machineParameterNames = [
  "supervisor",
  "image",
  "cpuMillis",
  "memoryMebibytes",
  "processesMax"
] as const

/** The fields of `OperationParameters`: two requests are the same when each is. */
export const parameterNames = [...machineParameterNames, "snapshot", "adoptDisk"] as const

/** A request as its caller makes it. The initiator is not among it: it comes from the credentials. */
export interface OperationRequest {
  readonly project: ProjectId
  readonly action: OperationAction
  readonly requestKey: RequestKey
  /** Null: whatever generation the runtime has. */
  readonly expectedGeneration: Generation | null
  readonly parameters: OperationParameters
}

/** What a delete removed and proved. */
export const OperationResult = Schema.Struct({
  paths: Schema.Array(Schema.String),
  proofs: Schema.Array(Schema.String)
})
export type OperationResult = typeof OperationResult.Type

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
  /** Machines (`sandbox/generation`) of its recipes that are not proved absent: the receipt stays for them. */
  owed: Schema.Array(Schema.String),
  /** What proved its machines absent, a sentence each, the newest first: why they are not owed any more. */
  absences: Schema.Array(Schema.String),
  result: Schema.NullOr(OperationResult),
  errorCode: Schema.NullOr(Schema.String),
  errorText: Schema.NullOr(Schema.String),
  /** Who superseded it: an account's id, or `system`; null unless it is superseded. Source: FC-22. */
  supersededBy: Schema.NullOr(Schema.String),
  /** Who asked to take it back while its claimant's node was not seen: it is, once the claim comes back. Source: FC-06. */
  supersedeAskedBy: Schema.NullOr(Schema.String),
  createdAtMillis: Schema.Int,
  claimedAtMillis: Schema.NullOr(Schema.Int),
  settledAtMillis: Schema.NullOr(Schema.Int)
}) {}

/** Whether its new machine has taken the old one's place in the runtime's row. */
export const isSwitched = (operation: Pick<Operation, "flags">): boolean =>
  operation.flags.includes("switched")

/** Generation of the machine that the operation works on now: its new one's, once that has taken its place. */
export const machineGenerationOf = (
  operation: Pick<Operation, "flags" | "generation" | "newRecipe">
): Generation =>
  isSwitched(operation) && operation.newRecipe !== null
    ? operation.newRecipe.generation
    : operation.generation

/** Name under which a machine is owed by receipts: its sandbox and the generation that it was built for. */
export const machineOf = (recipe: Pick<MachineRecipe, "sandbox" | "generation">): string =>
  `${recipe.sandbox}/${recipe.generation}`
