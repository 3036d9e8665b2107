/**
 * Port of the host's deletion records, and what a deletion can be refused with. A record outlives its Project: it is
 * the receipt of what was confirmed, removed and proved.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { deletionUnattendedTriesMax } from "../Bounds.ts"
import { ProjectId } from "../Identity.ts"
import type { OutsideTransaction, StorageError } from "../persistence/PluginDb.ts"
import type { AccessRefused, Caller } from "./Accounts.ts"

/** One deletion as far as it has come. `completedSteps` are names of participants. */
export class DeletionRecord extends Schema.Class<DeletionRecord>("holdfast/DeletionRecord")({
  project: ProjectId,
  name: Schema.String,
  state: Schema.Literals(["pending", "completed"]),
  participants: Schema.Array(Schema.String),
  completedSteps: Schema.Array(Schema.String),
  confirmedPaths: Schema.Array(Schema.String),
  proofs: Schema.Array(Schema.String),
  /** Code of the failure at which it stopped last; null while it goes on. */
  failureCode: Schema.NullOr(Schema.String),
  /** How often it has stopped since somebody asked for it or a step was done. */
  attempts: Schema.Int
}) {}

/** Whether a deletion has stopped so often that somebody has to look at it. It is tried on, less often. Source: FC-09. */
export const needsOperator = ({ attempts, state }: Pick<DeletionRecord, "attempts" | "state">): boolean =>
  state === "pending" && attempts >= deletionUnattendedTriesMax

/** No owner of storage is registered, so a managed Project cannot be deleted. Source: SP-DEL-12. */
export class DeletionBlocked extends Schema.TaggedError<DeletionBlocked>()("DeletionBlocked", {
  project: ProjectId
}) {
  readonly code = "deletion_blocked"
  override get message(): string {
    return `project ${this.project} is kept: nobody is registered who can remove its storage`
  }
}

/** An owner cannot say what it would remove; nothing is admitted. Source: SP-DEL-06. */
export class DeletionOwnerUnavailable extends Schema.TaggedError<DeletionOwnerUnavailable>()(
  "DeletionOwnerUnavailable",
  { project: ProjectId, participant: Schema.String, reason: Schema.String }
) {
  readonly code = "deletion_owner_unavailable"
  override get message(): string {
    return `project ${this.project} is kept: ${this.participant} cannot say what it owns (${this.reason}); try again`
  }
}

/** What was confirmed is not what would be removed now. Source: SP-DEL-07. */
export class ConfirmationStale extends Schema.TaggedError<ConfirmationStale>()("ConfirmationStale", {
  project: ProjectId,
  unconfirmed: Schema.Array(Schema.String),
  unknown: Schema.Array(Schema.String)
}) {
  readonly code = "confirmation_stale"
  override get message(): string {
    return `project ${this.project} is kept: ${this.unconfirmed.length} paths were not confirmed and ${this.unknown.length} confirmed ones are not its own; preview the deletion again`
  }
}

/** A participant failed; the record keeps how far it came, and asking again goes on there. Source: SP-DEL-11. */
export class DeletionFailed extends Schema.TaggedError<DeletionFailed>()("DeletionFailed", {
  project: ProjectId,
  participant: Schema.String,
  reason: Schema.String,
  why: Schema.String
}) {
  readonly code = "deletion_failed"
  override get message(): string {
    return `deleting project ${this.project} stopped at ${this.participant}: ${this.why}`
  }
}

export class DeletionStore extends Context.Service<
  DeletionStore,
  {
    /** Whether the caller may delete the Project now: as an administrator, or as its owner. */
    readonly requireOwner: (
      caller: Caller,
      project: ProjectId
    ) => Effect.Effect<void, AccessRefused | StorageError>
    /**
     * One transaction: the Project's row FOR UPDATE (so that it waits for whoever holds it active), the caller's
     * ownership again, `lifecycle` deleting and the record pending. A record that is there keeps what it has and
     * takes the new confirmation beside it. Source: SP-ADM-02, SP-ADM-04.
     */
    readonly admit: (admission: {
      readonly caller: Caller
      readonly project: ProjectId
      readonly participants: ReadonlyArray<string>
      readonly confirmedPaths: ReadonlyArray<string>
    }) => Effect.Effect<DeletionRecord, AccessRefused | StorageError>
    readonly byProject: (project: ProjectId) => Effect.Effect<Option.Option<DeletionRecord>, StorageError>
    /**
     * The next pending ones after that one, the oldest first; at most `deletionsPageMax`. One that needs an operator is
     * due every `deletionOperatorRetrySeconds`, by the database's clock. Source: FC-09.
     */
    readonly due: (after: ProjectId | null) => Effect.Effect<ReadonlyArray<DeletionRecord>, StorageError>
    /** How many pending ones need an operator. Source: FC-09. */
    readonly needingOperator: Effect.Effect<number, StorageError>
    /** Notes that a participant has verified its success, with its proofs; once a step. */
    readonly completeStep: (
      project: ProjectId,
      step: { readonly participant: string; readonly proofs: ReadonlyArray<string> }
    ) => Effect.Effect<void, StorageError>
    /** Notes where it stopped; answers how often it has, and 0 where it is not pending any more. */
    readonly noteFailure: (project: ProjectId, code: string) => Effect.Effect<number, StorageError>
    /**
     * Removes memberships and the Project's row and completes the record, in one transaction that locks the Project
     * first. The schema refuses it while anything is owed. Answers the record also when another call was first.
     * Source: SP-DEL-11, SP-ADM-03, FC-14.
     */
    readonly finalize: (project: ProjectId) => Effect.Effect<DeletionRecord, StorageError>
  }
>()("holdfast/domain/host/DeletionStore") {
  declare readonly [OutsideTransaction]: true
}
