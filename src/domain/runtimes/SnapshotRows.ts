/**
 * Port of the rows of workspace snapshots. A row is there before its copy and goes after it. Every method joins the
 * caller's transaction or is one statement of its own; every write repeats what its caller saw as a condition and
 * answers whether the row moved. Source: SP-OPS-03, SP-OPS-06.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { AccountId, Generation, type NodeId, OperationId, ProjectId, SnapshotId } from "../Identity.ts"
import type { StorageFailure, TransactionEnded } from "../persistence/PluginDb.ts"
import { MachineRecipe } from "./Runtime.ts"

/** `capturing` until the copy is whole and durable, `removing` from the decision that it goes. */
export const SnapshotState = Schema.Literals(["capturing", "ready", "removing"])
export type SnapshotState = typeof SnapshotState.Type

export class Snapshot extends Schema.Class<Snapshot>("holdfast/Snapshot")({
  rowId: Schema.Int,
  project: ProjectId,
  id: SnapshotId,
  /** Where the copy lies: a uuid of its own below the Project's disks, never the caller's id. */
  path: Schema.String,
  /** Of the disk; null while it is being made. */
  bytes: Schema.NullOr(Schema.Int),
  /** Generation and recipe of the machine whose workspace it is. */
  generation: Generation,
  recipe: MachineRecipe,
  state: SnapshotState,
  operation: OperationId,
  account: Schema.NullOr(AccountId),
  /** The claim that has the guest stand still for the copy, or null. */
  pausedBy: Schema.NullOr(Schema.String),
  removedBy: Schema.NullOr(Schema.String),
  /** Why it goes, while it is going. Source: FC-22. */
  reason: Schema.NullOr(Schema.String),
  createdAtMillis: Schema.Int
}) {}

/** A snapshot that somebody has left behind, and whether its operation may still come back to it. */
export interface UnfinishedSnapshot {
  readonly snapshot: Snapshot
  /** Its operation is queued or claimed. */
  readonly isLive: boolean
  readonly isClaimed: boolean
}

/** Who removes a snapshot and why: both are told after the end. Source: FC-22. */
export interface SnapshotEnd {
  readonly by: string
  readonly reason: string
}

type RowsError = StorageFailure | TransactionEnded

export class SnapshotRows extends Context.Service<
  SnapshotRows,
  {
    /** Snapshots of the Project in the order in which they were asked for; `projectSnapshotsMax` at most. */
    readonly ofProject: (project: ProjectId) => Effect.Effect<ReadonlyArray<Snapshot>, RowsError>
    readonly byId: (project: ProjectId, id: SnapshotId) => Effect.Effect<Option.Option<Snapshot>, RowsError>
    /** Notes a copy that is about to be made; false when the Project has one of that id. */
    readonly insert: (
      intended: Pick<Snapshot, "project" | "id" | "path" | "generation" | "recipe" | "operation" | "account">
    ) => Effect.Effect<boolean, RowsError>
    /** Notes who is about to pause the guest; false unless it is still being captured and nobody else has. */
    readonly markPaused: (rowId: number, by: string) => Effect.Effect<boolean, RowsError>
    /** The guest goes on; false when somebody else had noted himself meanwhile. */
    readonly clearPaused: (rowId: number, by: string) => Effect.Effect<boolean, RowsError>
    /** The copy is whole; false unless the operation was still capturing it. */
    readonly markReady: (
      rowId: number,
      made: { readonly operation: OperationId; readonly bytes: number }
    ) => Effect.Effect<boolean, RowsError>
    /** From now on the snapshot is not there any more, and its copy goes; false unless it was in that state. */
    readonly markRemoving: (
      rowId: number,
      from: SnapshotState,
      end: SnapshotEnd
    ) => Effect.Effect<boolean, RowsError>
    /** The same for one whose operation is neither queued nor claimed: nobody comes back to it. */
    readonly markAbandoned: (rowId: number, end: SnapshotEnd) => Effect.Effect<boolean, RowsError>
    /** Forgets a snapshot whose copy is gone; false unless it was being removed. */
    readonly remove: (rowId: number) => Effect.Effect<boolean, RowsError>
    /** What is being made, is going or has its guest paused on this node, after `after` in the order of rows. */
    readonly unfinished: (walk: {
      readonly node: NodeId
      readonly after: number
      readonly limit: number
    }) => Effect.Effect<ReadonlyArray<UnfinishedSnapshot>, RowsError>
    /** Forgets every snapshot of the Project: its storage is removed. Only project removal asks for it. */
    readonly clear: (project: ProjectId) => Effect.Effect<void, RowsError>
  }
>()("holdfast/domain/runtimes/SnapshotRows") {}
