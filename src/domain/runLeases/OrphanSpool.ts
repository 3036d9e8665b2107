/**
 * Port of the place that remembers a resource when the database does not: written when both its row and its teardown
 * have failed, read again by the next flush, of this process or a later one. Source: RL section 3.5, FC-19.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type { PendingCleanupLease } from "../environments/EnvironmentLeaseStore.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"

/** What has to become a row. Secrets stand in it as references only. */
export type OrphanRecord = PendingCleanupLease

/** The spool cannot be read: this is never "there are no orphans". It carries no text of the world's. */
export class OrphanSpoolUnreadable extends Data.TaggedError("OrphanSpoolUnreadable")<{
  readonly why: "folder" | "permissions" | "link"
}> {
  readonly code = "orphan_spool_unreadable"
  override get message(): string {
    return `the orphan spool cannot be read (${this.why}): make its folder a private one of the daemon's own, then restart`
  }
}

export class OrphanSpool extends Context.Service<
  OrphanSpool,
  {
    /** True once the record is durable; false where it could not be kept. */
    readonly append: (record: OrphanRecord) => Effect.Effect<boolean>
    /** Every record that can be read; one that cannot goes to quarantine and is counted. */
    readonly load: Effect.Effect<ReadonlyArray<OrphanRecord>, OrphanSpoolUnreadable>
    readonly remove: (record: OrphanRecord) => Effect.Effect<void>
    /** Malformed files that were put aside, since the spool was opened or before. */
    readonly quarantined: Effect.Effect<number>
  }
>()("holdfast/domain/runLeases/OrphanSpool") {
  declare readonly [OutsideTransaction]: true
}
