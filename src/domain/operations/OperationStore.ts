/**
 * Ports of the operations' rows. `OperationStore` runs standalone statements on the root handle, each one round
 * trip: admission, claim, reads. `OperationRows` works inside transactions: the readable form of admission, and the
 * writes of an executor, which join the caller's transaction or are a short one of their own.
 * What the rows mean is decided elsewhere: admissionDecision.ts, claimDecision.ts.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { AbsenceProof } from "../guests/AbsenceProof.ts"
import type { AccessRefused, Caller, Initiator } from "../host/Accounts.ts"
import type { ProjectNotActive } from "../host/Projects.ts"
import {
  type AccountId,
  type Generation,
  type NodeId,
  OperationId,
  type ProcessIdentity,
  ProjectId,
  type RequestKey
} from "../Identity.ts"
import type {
  OutsideTransaction,
  PluginTx,
  StorageError,
  StorageFailure,
  TransactionEnded
} from "../persistence/PluginDb.ts"
import type { MachineRecipe, Runtime } from "../runtimes/Runtime.ts"
import type { Observation } from "../runtimes/RuntimeStore.ts"
import type {
  Operation,
  OperationAction,
  OperationFlag,
  OperationParameters,
  OperationResult
} from "./Operation.ts"
import type { OperationProgress } from "./OperationEvents.ts"
import type { QueueSight } from "./waiting.ts"

/** An operation as it is asked for, with everything resolved before a transaction opens. Source: SP-TX-10. */
export interface PreparedOperation {
  readonly id: OperationId
  readonly project: ProjectId
  readonly account: AccountId | null
  readonly initiator: Initiator
  readonly action: OperationAction
  readonly requestKey: RequestKey
  readonly expectedGeneration: Generation | null
  readonly parameters: OperationParameters
}

/** Why a queued recovery gave way. */
export const supersededByRequest = {
  code: "superseded_by_request",
  text: "an explicit request took the place of this automatic recovery"
} as const

/** Why an operation ends that somebody took back before it began; who is on the receipt. Source: FC-06. */
export const supersededByUser = {
  code: "superseded_by_user",
  text: "it was taken back before it began"
} as const

/** The same of one that was at work on a node that was not seen when somebody asked. Source: FC-06. */
export const supersededOnceSeen = {
  code: "superseded_by_user",
  text: "it was taken back while the node that had begun it was not seen, and nobody went on with it"
} as const

/** Why queued work of a closed Project ends. Source: SP-DEL-04. */
export const supersededByDeletion = {
  code: "project_not_active",
  text: "the project was closed before this operation began"
} as const

/** Answer of the one-statement admission; `operation` is the new one, the receipt of the key, or the live one. */
export type Enqueued =
  | {
      readonly outcome: "admitted" | "repeated" | "rearmed"
      readonly operation: Operation
      readonly superseded: ReadonlyArray<Operation>
    }
  | { readonly outcome: "key_conflict" | "in_progress"; readonly operation: Operation }
  | { readonly outcome: "generation_conflict"; readonly actual: Generation; readonly expected: Generation }
  | { readonly outcome: "not_provisioned" | "already_provisioned" }

/**
 * What became of taking an operation back; `refused` answers it as it is: at work, settled, or a deletion's. `asked`: its
 * claimant's node is not seen, so the claim stays, and who comes by it next supersedes it.
 */
export interface TakenBack {
  readonly outcome: "superseded" | "asked" | "repeated" | "refused"
  readonly operation: Operation
}

/** What a claim call moved: what it claimed, oldest first, and ordinary work of closed Projects that it superseded. */
export interface Claimed {
  readonly claimed: ReadonlyArray<Operation>
  readonly superseded: ReadonlyArray<Operation>
}

/** A claim as its holder knows it; the condition of every later write. Source: SP-OPS-06. */
export type HeldClaim = Pick<Operation, "rowId" | "id" | "project" | "claimSequence"> & {
  readonly claimedBy: string | null
}

/** One durable step of an executor. Absent recipes stay as they are; flags are the whole new list. */
export interface Progress {
  readonly step: string | null
  readonly fraction: number
  readonly message: string | null
  readonly flags: ReadonlyArray<OperationFlag>
  readonly oldRecipe?: MachineRecipe
  readonly newRecipe?: MachineRecipe
}

/** How an operation ends. `code` is stable, `text` one sentence of ours. */
export type SettleOutcome =
  | { readonly state: "succeeded"; readonly result?: OperationResult }
  | {
      readonly state: "failed" | "superseded"
      readonly code: string
      readonly text: string
      readonly result?: OperationResult
    }

/** Runtime, live operation and newest receipts of one Project, all of one snapshot. */
export interface Overview {
  readonly runtime: Option.Option<Runtime>
  readonly live: Option.Option<Operation>
  /** Settled and live ones, newest first. */
  readonly newest: ReadonlyArray<Operation>
}

/** The claim was superseded, stolen or settled: the late result changed nothing. Source: SP-OPS-06. */
export class ClaimLost extends Schema.TaggedError<ClaimLost>()("ClaimLost", {
  operation: OperationId,
  project: ProjectId,
  claimSequence: Schema.Int
}) {
  readonly code = "claim_lost"
  override get message(): string {
    return `claim ${this.claimSequence} of operation ${this.operation} on project ${this.project} is no longer held: stop working on it`
  }
}

export class OperationStore extends Context.Service<
  OperationStore,
  {
    /**
     * Admission in one statement, which admissions that wait anyway share: the same refusals in the same order as the
     * composed form, each for its own caller. Source: SP-ADM.
     */
    readonly enqueue: (
      prepared: PreparedOperation
    ) => Effect.Effect<Enqueued, ProjectNotActive | AccessRefused | StorageFailure>
    /**
     * Moves the oldest queued operations that the process's node may carry out, at most so many and never one that
     * another claimant holds: what a machine needs is left to the node that carries it. Ordinary work of a Project that
     * is not active is superseded instead of claimed. Fewer than asked for: no more were to be had when the statement
     * began. Source: FC-13.
     */
    readonly claim: (
      process: ProcessIdentity,
      operationsMax: number
    ) => Effect.Effect<Claimed, StorageFailure>
    /**
     * Supersedes a queued operation of the Project for the caller, whose access is re-checked in the same statement;
     * one that a process of a node holds which was not seen for `nodeUnseenSeconds` is marked.
     * None: there is no such operation. Source: FC-06, FC-22, SP-ADM-04.
     */
    readonly takeBack: (
      caller: Pick<Caller, "account">,
      operation: Pick<Operation, "id" | "project">
    ) => Effect.Effect<Option.Option<TakenBack>, AccessRefused | StorageFailure>
    /** Claimed operations after `afterRow` that the node may carry out, oldest first. Source: SP-OPS-01. */
    readonly claimed: (walk: {
      readonly node: NodeId
      readonly afterRow: number
      readonly limit: number
    }) => Effect.Effect<ReadonlyArray<Operation>, StorageFailure>
    /** Back to the queue with step and flags, if the observed claim is still the one; answers whether it was. */
    readonly requeueIfClaimedBy: (claim: HeldClaim) => Effect.Effect<boolean, StorageFailure>
    readonly byId: (id: OperationId) => Effect.Effect<Option.Option<Operation>, StorageFailure>
    /** Newest first, below `beforeRow` when given. Source: SP-OPS-01. */
    readonly newestOfProject: (
      project: ProjectId,
      page: { readonly limit: number; readonly beforeRow?: number }
    ) => Effect.Effect<ReadonlyArray<Operation>, StorageFailure>
    readonly newestOfAccount: (
      account: AccountId,
      page: { readonly limit: number; readonly beforeRow?: number }
    ) => Effect.Effect<ReadonlyArray<Operation>, StorageFailure>
    /** One repeatable-read snapshot of a Project for the dock: nothing is provisioned, nothing locked. */
    readonly overview: (
      project: ProjectId,
      receipts: number
    ) => Effect.Effect<Overview, StorageFailure | StorageError>
  }
>()("holdfast/domain/operations/OperationStore/OperationStore") {
  declare readonly [OutsideTransaction]: true
}

/** What a method of the transaction's own connection can fail with. */
export type BoundError = StorageFailure | TransactionEnded

export class OperationRows extends Context.Service<
  OperationRows,
  {
    /** The receipt of a key; locked FOR UPDATE unless the transaction is read-only. Source: SP-TX-04. */
    readonly byKey: (
      project: ProjectId,
      key: RequestKey
    ) => Effect.Effect<Option.Option<Operation>, BoundError, PluginTx>
    /** The live operation of a Project; locked in the same way. */
    readonly live: (project: ProjectId) => Effect.Effect<Option.Option<Operation>, BoundError, PluginTx>
    readonly newest: (
      project: ProjectId,
      limit: number
    ) => Effect.Effect<ReadonlyArray<Operation>, BoundError, PluginTx>
    /** Writes a queued operation. A second live one of the Project violates the schema. */
    readonly insert: (
      prepared: PreparedOperation,
      generation: Generation
    ) => Effect.Effect<Operation, BoundError, PluginTx>
    /** A failed receipt is queued again with its step, flags and recipes; false unless it was `failed`. */
    readonly rearm: (id: OperationId) => Effect.Effect<boolean, BoundError, PluginTx>
    /** Supersedes a queued operation, keeping its recipes; false when it was not queued any more. Source: FC-22. */
    readonly supersedeQueued: (
      id: OperationId,
      why: { readonly code: string; readonly text: string; readonly by: AccountId | "system" }
    ) => Effect.Effect<boolean, BoundError, PluginTx>
    /** Receipts that still owe machines, oldest first: what cleanup has to look for. Source: SP-OPS-04. */
    readonly owing: (project: ProjectId) => Effect.Effect<ReadonlyArray<Operation>, BoundError, PluginTx>
    /** The sentences of every proof that the Project's receipts keep, by the age of the receipts. Source: FC-14. */
    readonly absences: (project: ProjectId) => Effect.Effect<ReadonlyArray<string>, BoundError, PluginTx>
    /** Of the live ones among the operations: where each stands in its queue. Joins or opens. Source: FC-06. */
    readonly queueSights: (
      operations: ReadonlyArray<OperationId>
    ) => Effect.Effect<ReadonlyArray<QueueSight>, BoundError>
    /** Writes one step of a claimed operation; answers the row as it is now. Joins or opens. Source: SP-TX-06. */
    readonly saveProgress: (
      claim: HeldClaim,
      progress: Progress
    ) => Effect.Effect<Operation, ClaimLost | BoundError>
    /**
     * Ends a claimed operation, records what the runtime is now (if said, and if its generation is still the one),
     * and trims the Project's receipts: one statement, which ends that wait anyway share. Joins or opens.
     * Source: SP-OPS-04.
     */
    readonly settle: (
      claim: HeldClaim,
      outcome: SettleOutcome,
      observation?: Observation
    ) => Effect.Effect<OperationProgress, ClaimLost | BoundError>
    /**
     * Notes what proves a machine absent on every receipt of the Project that owes it, and none of them stays for it
     * any more. Nothing but a proof takes a machine off a receipt. Joins or opens. Source: SP-OPS-04, BX-02.
     */
    readonly recordAbsence: (project: ProjectId, proof: AbsenceProof) => Effect.Effect<void, BoundError>
  }
>()("holdfast/domain/operations/OperationStore/OperationRows") {}
