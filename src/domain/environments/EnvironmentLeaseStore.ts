/**
 * Port of environment leases and of the intents before them. Every method is one statement or one short transaction;
 * no provider is called while one is open. Every write of a late caller repeats what it saw as a condition, and answers
 * whether the row moved. Source: RL sections 3.7, 5.2 and 6.2.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type {
  AgentId,
  EnvironmentId,
  EnvironmentLeaseId,
  ExecutionWorkspaceId,
  RequestKey,
  RunId,
  TaskId,
  TenantId
} from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import type { OutsideTransaction, StorageError } from "../persistence/PluginDb.ts"
import type {
  CleanupStatus,
  EnvironmentLease,
  EnvironmentLeaseStatus,
  LeaseInEnvironment,
  LeasePolicy
} from "./EnvironmentLease.ts"
import type { AcquisitionRequestTaken, ProviderIntent, RequestHolder } from "./ProviderIntent.ts"

/** ERR-BINDING: the environment is another tenant's managed resource; `status` is that of HTTP. Source: RL-ACQ-10. */
export class EnvironmentTenantMismatch extends Schema.TaggedError<EnvironmentTenantMismatch>()(
  "EnvironmentTenantMismatch",
  {}
) {
  readonly code = "environment_tenant_mismatch"
  readonly status = 403
  readonly details = { code: "environment_tenant_mismatch" } as const
  override get message(): string {
    return "the environment is managed for another tenant: lease one of your own"
  }
}

/** ERR-REUSE-CONFLICT: the reusable lease belongs to another task, agent or workspace. Source: RL-REUSE-06. */
export class ReusableLeaseConflict extends Schema.TaggedError<ReusableLeaseConflict>()(
  "ReusableLeaseConflict",
  {}
) {
  readonly code = "reusable_lease_scope_mismatch"
  readonly status = 409
  override get message(): string {
    return "the reusable lease belongs to another task, agent or workspace, or has moved on: acquire a lease of your own"
  }
}

/** The environment has `environmentLeasesLiveMax` leases that are not over: release some first. Source: FC-15. */
export class EnvironmentLeasesFull extends Schema.TaggedError<EnvironmentLeasesFull>()(
  "EnvironmentLeasesFull",
  {}
) {
  readonly code = "environment_leases_full"
  readonly status = 409
  override get message(): string {
    return "the environment has as many unfinished leases as it may: release some, or see what their cleanup waits for"
  }
}

export interface NewEnvironmentLease {
  readonly id: EnvironmentLeaseId
  readonly tenant: TenantId
  readonly environment: EnvironmentId
  readonly executionWorkspace: ExecutionWorkspaceId | null
  readonly task: TaskId | null
  readonly run: RunId | null
  readonly policy: LeasePolicy
  readonly provider: string | null
  readonly providerLeaseId: string | null
  readonly expiresAtMillis: number | null
  readonly metadata: JsonObject
  readonly sentConfig: JsonObject | null
  /** Refuses with `EnvironmentTenantMismatch` unless the environment is bound to the tenant, in the insert itself. */
  readonly assertTenantBinding: boolean
  /** The row whose resource the new one takes over: it becomes `expired`, `success` in the same transaction. */
  readonly replaces?: EnvironmentLeaseId
}

export interface PendingCleanupLease {
  readonly id: EnvironmentLeaseId
  readonly tenant: TenantId
  /** One that is gone already is stored as none. */
  readonly environment: EnvironmentId | null
  readonly executionWorkspace: ExecutionWorkspaceId | null
  readonly task: TaskId | null
  readonly run: RunId | null
  readonly provider: string
  readonly providerLeaseId: string
  readonly metadata: JsonObject
  readonly sentConfig: JsonObject | null
  readonly failureReason: string
}

/** A claim on the right to call the provider about one lease. Source: RL-FENCE-02, RL-STOP-05. */
export interface CleanupClaim {
  readonly lease: EnvironmentLeaseId
  readonly attempt: string
  /** Statuses from which it may be taken. */
  readonly from: ReadonlyArray<EnvironmentLeaseStatus>
  /** Refused while the lease's run is live, checked in the same statement under a lock of the run. Source: RL-FENCE-01. */
  readonly refuseLiveRun: boolean
  /** Written with the claim; null keeps the reason. */
  readonly failureReason: string | null
  /** Merged into the metadata in the same write: a stop-only marker. */
  readonly marker?: JsonObject
  readonly actor: string
}

/** Compared again after the call. Source: RL-STOP-08, RL-FENCE-03. */
export interface ClaimedCleanup {
  readonly lease: EnvironmentLeaseId
  readonly attempt: string
  readonly run: RunId | null
  readonly providerLeaseId: string | null
}

export type CleanupEnd =
  | {
      readonly _tag: "Ended"
      readonly status: "released" | "expired"
      /** null clears it. undefined keeps it. */
      readonly failureReason?: string | null
      /** Merged; keys in `removeKeys` go. */
      readonly metadata: JsonObject
      readonly removeKeys: ReadonlyArray<string>
    }
  /**
   * Stays `pending_cleanup`, `failed`, and is due again after the back-off. It counts a try unless `isTry` is false: the
   * provider could not be reached at all. Source: FC-09, RL 6.4 item 4.
   */
  | { readonly _tag: "Owed"; readonly metadata?: JsonObject; readonly isTry?: boolean }

/** Pages of the sweep's queue, and where the next one begins. */
export interface DueCleanups {
  readonly leases: ReadonlyArray<EnvironmentLease>
  /** When the first page was read, by the database's clock: what is put into the queue since is not of this pass. */
  readonly readAtMillis: number
  /** Since when the last row has been due. */
  readonly lastDueAtMillis: number
}

export interface ReuseScope {
  readonly tenant: TenantId
  readonly environment: EnvironmentId
  readonly executionWorkspace: ExecutionWorkspaceId | null
  readonly task: TaskId | null
}

/** What scoped destruction goes for. The tenant is part of the authority. Source: RL-DESTROY-02. */
export type DestructionScope =
  | { readonly tenant: TenantId; readonly task: TaskId }
  | { readonly tenant: TenantId; readonly executionWorkspace: ExecutionWorkspaceId }

export class EnvironmentLeaseStore extends Context.Service<
  EnvironmentLeaseStore,
  {
    /**
     * Makes the intent durable; the same one again changes nothing. Refused where the environment has no room for the lease
     * that is meant, so that nothing is created in vain, and where another acquisition has the request's key.
     */
    readonly intend: (
      intent: ProviderIntent
    ) => Effect.Effect<void, AcquisitionRequestTaken | EnvironmentLeasesFull | StorageError>
    /** The intent whose request has the key. */
    readonly holderOfRequest: (
      tenant: TenantId,
      requestKey: RequestKey
    ) => Effect.Effect<Option.Option<RequestHolder>, StorageError>
    /** Nobody waits for the intent's answer any more: its request may be made again beside it. */
    readonly freeRequestKey: (intent: EnvironmentLeaseId) => Effect.Effect<void, StorageError>
    /** The create came to nothing that is known to exist: the intent goes. */
    readonly dropIntent: (intent: EnvironmentLeaseId) => Effect.Effect<void, StorageError>
    /** Intents without a lease, the oldest first, at most `providerIntentsPageMax`. */
    readonly intents: Effect.Effect<
      ReadonlyArray<ProviderIntent & { readonly ageMillis: number }>,
      StorageError
    >
    /** Inserts an `active` row and removes its intent, in one transaction. */
    readonly acquireLease: (
      lease: NewEnvironmentLease
    ) => Effect.Effect<
      EnvironmentLease,
      | AcquisitionRequestTaken
      | EnvironmentTenantMismatch
      | ReusableLeaseConflict
      | EnvironmentLeasesFull
      | StorageError
    >
    /**
     * The same run comes back to the row that it still holds: refreshes its metadata and answers it, or none where the row
     * is no longer that run's. Source: RL-REUSE-11.
     */
    readonly refreshLease: (
      lease: EnvironmentLeaseId,
      run: RunId,
      metadata: JsonObject
    ) => Effect.Effect<Option.Option<EnvironmentLease>, StorageError>
    /** Inserts a row that is born `pending_cleanup`, `failed`, `ephemeral`; the same id again is the same row. Source: RL-ORPHAN-09. */
    readonly insertPendingCleanupLease: (
      lease: PendingCleanupLease
    ) => Effect.Effect<EnvironmentLease, StorageError>
    /** Ends an active row; refused (none) where it is no longer active or, with `run`, no longer that run's. */
    readonly releaseLease: (
      lease: EnvironmentLeaseId,
      end: {
        readonly status: Exclude<EnvironmentLeaseStatus, "active">
        readonly failureReason: string | null
        readonly cleanupStatus: CleanupStatus | null
        /** Merged into the metadata. */
        readonly metadata?: JsonObject
        readonly actor: string
        /** Refused where the row is another run's by now. */
        readonly run?: RunId
      }
    ) => Effect.Effect<Option.Option<EnvironmentLease>, StorageError>
    /** Replaces the whole metadata; none where it is not `former` any more, when that is given. */
    readonly updateLeaseMetadata: (
      lease: EnvironmentLeaseId,
      metadata: JsonObject,
      former?: JsonObject
    ) => Effect.Effect<Option.Option<EnvironmentLease>, StorageError>
    readonly getLeaseById: (
      lease: EnvironmentLeaseId
    ) => Effect.Effect<Option.Option<EnvironmentLease>, StorageError>
    /** The newest lease of the tenant that was acquired under this request key. Source: FC-04. */
    readonly leaseOfRequest: (
      tenant: TenantId,
      requestKey: RequestKey
    ) => Effect.Effect<Option.Option<EnvironmentLease>, StorageError>
    /** What the run holds and what it held, newest first, at most `environmentLeaseListMax`, each with its environment. */
    readonly heldByRun: (run: RunId) => Effect.Effect<ReadonlyArray<LeaseInEnvironment>, StorageError>
    /** Newest first, at most `environmentLeaseListMax`. */
    readonly listLeases: (filter: {
      readonly environment?: EnvironmentId
      readonly tenant?: TenantId
      readonly run?: RunId
    }) => Effect.Effect<ReadonlyArray<EnvironmentLease>, StorageError>
    /** Reusable rows of the scope's environment that are not over, newest first: candidates, to be decided on. */
    readonly reusable: (scope: ReuseScope) => Effect.Effect<ReadonlyArray<EnvironmentLease>, StorageError>
    /** Unfinished rows of the scope that are reusable, and retained ones of any policy, newest first. */
    readonly destroyable: (
      scope: DestructionScope
    ) => Effect.Effect<ReadonlyArray<EnvironmentLease>, StorageError>
    /** Unfinished rows of the environment that name a resource. */
    readonly unfinishedOf: (
      environment: EnvironmentId
    ) => Effect.Effect<ReadonlyArray<EnvironmentLease>, StorageError>
    /** Retained rows and unfinished cleanups of the agent, by metadata or by the run's agent. Source: RL-DESTROY-09. */
    readonly ofAgent: (agent: AgentId) => Effect.Effect<ReadonlyArray<EnvironmentLease>, StorageError>
    /** Whether another row, `active` or `retained`, names the same resource. Source: RL-STOP-07. */
    readonly hasOtherOwner: (lease: EnvironmentLease) => Effect.Effect<boolean, StorageError>
    /** Takes the row for one attempt: `pending_cleanup`, `failed`, the claim's keys set; none where it may not be taken. */
    readonly claimCleanup: (
      claim: CleanupClaim
    ) => Effect.Effect<Option.Option<EnvironmentLease>, StorageError>
    /** Moves the end of a claim that is still this attempt's; answers whether it was. */
    readonly renewCleanup: (claimed: ClaimedCleanup) => Effect.Effect<boolean, StorageError>
    /**
     * Writes the end of an attempt if the row is still as it was claimed; none where it moved. None too, whoever asks, for a
     * `released` without evidence of the stop of exactly this resource, and for an `expired` of a row that may only be stopped
     * and has no receipt of its stop. Source: RL-STOP-08, RL section 5.2.
     */
    readonly settleCleanup: (
      claimed: ClaimedCleanup,
      end: CleanupEnd
    ) => Effect.Effect<Option.Option<EnvironmentLease>, StorageError>
    /**
     * Rows in `pending_cleanup` whose back-off is over and that no live claim holds, unreadable ones too, the longest waiting
     * first: a page or `pagesMax` of `cleanupSweepPageMax`, each row once behind `after`. Source: RL-SWEEP-05.
     */
    readonly dueCleanups: (options: {
      readonly backoffMillis: number
      readonly pagesMax?: number
      readonly after?: DueCleanups
    }) => Effect.Effect<DueCleanups, StorageError>
    /** Puts a row whose worker is away behind the others, without a try. Source: RL 6.4 item 4. */
    readonly postponeCleanup: (lease: EnvironmentLeaseId) => Effect.Effect<void, StorageError>
    /** A person's retry: due at once, whatever its back-off; answers whether it owes anything. Source: FC-09. */
    readonly makeDue: (lease: EnvironmentLeaseId) => Effect.Effect<boolean, StorageError>
    /** Cleanups that have failed so often that somebody has to look at them. Source: FC-09. */
    readonly needingOperator: Effect.Effect<number, StorageError>
    /**
     * Active rows whose run has been over for `abandonedLeaseGraceSeconds`, or whose expiry has passed, by the database's
     * clock, the oldest first, at most `environmentLeaseListMax`. Source: RL 6.4 item 3.
     */
    readonly abandoned: Effect.Effect<ReadonlyArray<EnvironmentLease>, StorageError>
    /** Deletes rows that are over and older than `endedLeaseKeptSeconds`, at most `endedLeasesPrunedMax`; answers how many. */
    readonly pruneEnded: Effect.Effect<number, StorageError>
  }
>()("holdfast/domain/environments/EnvironmentLeaseStore") {
  declare readonly [OutsideTransaction]: true
}
