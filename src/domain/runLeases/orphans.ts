/**
 * Resources that were created and belong to no run: first a row that owes the cleanup, then the teardown; and where
 * neither worked, the spool and this process remember it until a flush has made the row. No exception reaches a log: it may
 * carry credentials. Source: RL sections 4.7 and 4.8, RL 6.1 items 23 to 26.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { orphanWriteTriesMax } from "../Bounds.ts"
import { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { scrubMetadata } from "../secrets/scrubbing.ts"
import { OrphanBuffer } from "./OrphanBuffer.ts"
import { type OrphanRecord, OrphanSpool } from "./OrphanSpool.ts"
import { orphanErrorKind } from "./RunLeaseErrors.ts"
import { RuntimeSettings } from "./RuntimeSettings.ts"
import { tearDown } from "./teardown.ts"
import { attemptTeardown } from "./teardownAttempt.ts"

/** What a log may say of an orphan. Source: RL-ORPHAN-07. */
const fieldsOf = ({ environment, id, provider, tenant }: OrphanRecord) => ({
  errorKind: orphanErrorKind,
  provider,
  leaseId: id,
  tenantId: tenant,
  environmentId: environment
})

const insert = (record: OrphanRecord) =>
  EnvironmentLeaseStore.use((store) => store.insertPendingCleanupLease(record))

/** Writes the row, trying again for a while; none where the database would not take it. Source: RL-ORPHAN-08. */
const writeRow = Effect.fnUntraced(function* (record: OrphanRecord) {
  const { pendingCleanupWritePauseMillis } = yield* RuntimeSettings
  for (let tries = 1; ; tries += 1) {
    const row = yield* Effect.option(insert(record))
    if (Option.isSome(row)) return row
    yield* Effect.logWarning("the row of an orphaned sandbox was not written").pipe(
      Effect.annotateLogs({ ...fieldsOf(record), tries })
    )
    if (tries >= orphanWriteTriesMax) return row
    if (pendingCleanupWritePauseMillis > 0) yield* Effect.sleep(pendingCleanupWritePauseMillis)
  }
})

/** A provider may have put a secret into its id. Source: RL-SECRET-02. */
const loggedId = ({ providerLeaseId }: OrphanRecord, values: ReadonlyArray<Redacted.Redacted>) =>
  scrubMetadata({ providerLeaseId }, { config: {}, values })

/** Remembers what could be neither recorded nor torn down: the spool first, then this process. Source: RL-SPOOL-01 to -04. */
const defer = Effect.fnUntraced(function* (record: OrphanRecord, values: ReadonlyArray<Redacted.Redacted>) {
  const persisted = yield* OrphanSpool.use((spool) => spool.append(record))
  const buffered = yield* OrphanBuffer.use((buffer) => buffer.hold(record, persisted))
  yield* Effect.logError("an orphaned sandbox could be neither recorded nor torn down").pipe(
    Effect.annotateLogs({ ...fieldsOf(record), ...loggedId(record, values), persisted, buffered })
  )
})

/** The orphan as its row would say it, where there is none. */
const unrecorded = ({ failureReason, ...record }: OrphanRecord, createdAtMillis: number) =>
  new EnvironmentLease({
    ...record,
    status: "pending_cleanup",
    policy: "ephemeral",
    expiresAtMillis: null,
    releasedAtMillis: createdAtMillis,
    failureReason,
    cleanupStatus: "failed",
    cleanupTries: 0,
    needsOperator: false,
    endedBy: "acquisition",
    createdAtMillis
  })

/** Tears down what has a row. A database that fails meanwhile leaves the row, which owes it. */
const tearDownRow = (lease: EnvironmentLease) =>
  tearDown({
    lease,
    from: ["pending_cleanup"],
    refuseLiveRun: false,
    failureReason: null,
    actor: "acquisition"
  }).pipe(
    Effect.map(({ _tag }) => _tag === "Ended"),
    Effect.orElseSucceed(() => false)
  )

/** `gone`: its end is believed. `owed`: a row says so. `deferred`: only the spool or this process knows of it. */
export type OrphanFate = "gone" | "owed" | "deferred"

/**
 * Sees to a resource that no run holds: the row, then one teardown, whether or not the row could be written; and what
 * neither is recorded nor gone is remembered. Never fails. Source: RL-ORPHAN-01 to -08, RL 6.1 item 24.
 */
export const disposeOrphan = Effect.fn("runLeases.disposeOrphan")(function* (
  record: OrphanRecord,
  values: ReadonlyArray<Redacted.Redacted>
) {
  const row = yield* writeRow(record)
  if (Option.isSome(row)) {
    const isGone = yield* tearDownRow(row.value)
    return isGone ? ("gone" as const) : ("owed" as const)
  }
  const attempt = yield* attemptTeardown(unrecorded(record, yield* Clock.currentTimeMillis))
  if (attempt._tag === "Done") return "gone" as const
  yield* defer(record, values)
  return "deferred" as const
})

/** Makes the row of one orphan; what cannot be written stays where it is. Source: RL-SPOOL-06. */
const recover = Effect.fnUntraced(function* (record: OrphanRecord) {
  const written = yield* Effect.option(insert(record))
  if (Option.isNone(written)) {
    yield* Effect.logWarning("an orphaned sandbox has still no row").pipe(
      Effect.annotateLogs({ ...fieldsOf(record), requeued: true })
    )
    return false
  }
  yield* OrphanSpool.use((spool) => spool.remove(record))
  yield* OrphanBuffer.use((buffer) => buffer.letGo(record.id))
  return true
})

const flush = Effect.gen(function* () {
  const held = yield* OrphanBuffer.use((buffer) => buffer.held)
  const spooled = yield* Effect.result(OrphanSpool.use((spool) => spool.load))
  const orphans = new Map(
    [...held, ...Result.getOrElse(spooled, () => [])].map((record) => [record.id, record])
  )
  const done = yield* Effect.forEach([...orphans.values()], recover)
  const recovered = done.filter((isDone) => isDone).length
  if (Result.isFailure(spooled)) return yield* Effect.fail(spooled.failure)
  return { recovered, pending: done.length - recovered }
})

/**
 * Makes the rows of everything that is remembered beside the database, each once. Fails with `OrphanSpoolUnreadable` after
 * what this process remembers has been seen to: a spool that cannot be read is never an empty one.
 */
export const flushDeferredOrphans = Effect.fn("runLeases.flushDeferredOrphans")(function* () {
  const buffer = yield* OrphanBuffer
  return yield* buffer.oneAtATime(Effect.uninterruptible(flush))
})
