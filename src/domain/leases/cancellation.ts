/**
 * Cancelling an execution: the marker in the table, which any process may write, and the signal to a holder in this
 * process. Ending the command is the holder's business; it waits for `cancelRequested`.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { type Caller, HostAccounts } from "../host/Accounts.ts"
import type { LeaseId, ProjectId } from "../Identity.ts"
import { PluginDb, type StorageFailure } from "../persistence/PluginDb.ts"
import { type HeldExecution, HeldLeases } from "./HeldLeases.ts"
import { furtherMarker, LeaseNotFound } from "./Lease.ts"
import { LeaseStore } from "./LeaseStore.ts"

/** Makes the cancellation known here and remembers who is writing it, so that the same handle can wait for it. */
const signal = (held: HeldExecution, intent: Fiber.Fiber<unknown, StorageFailure>): void => {
  held.cancel = furtherMarker(held.cancel, "requested")
  held.intent = intent
  held.cancelled.openUnsafe()
}

/** An intent that was not written is reported at once, and again to the cleanup that awaits it. Source: SP-LEASE-06. */
const report = (what: string) => (failure: StorageFailure) =>
  Effect.logWarning(`the cancellation of ${what} could not be written: ${failure.message}`)

/** Whether the marker of this lease is written, or on its way. */
const intentStands = (held: HeldExecution): boolean => {
  if (held.intent === null) return held.cancel !== "none"
  const exit = held.intent.pollUnsafe()
  return exit === undefined || Exit.isSuccess(exit)
}

/** Begins to write the marker and returns at once; the same handle awaits it later. Source: SP-LEASE-05. */
export const intendCancel = Effect.fnUntraced(function* (held: HeldExecution) {
  const store = yield* LeaseStore
  if (held.phase !== "held" || intentStands(held)) return
  const writing = store
    .requestCancel(held.lease.id)
    .pipe(Effect.tapError(report(`lease ${held.lease.id}`)), Effect.interruptible)
  signal(held, yield* Effect.forkDetach(writing))
}, Effect.uninterruptible)

/** Waits for the pending intent; answers why it was not written, or none. Source: SP-LEASE-05, SP-LEASE-06. */
export const awaitIntent = Effect.fnUntraced(function* (held: HeldExecution) {
  if (held.intent === null) return Option.none<StorageFailure>()
  const exit = yield* Fiber.await(held.intent)
  if (Exit.isSuccess(exit)) return Option.none<StorageFailure>()
  const failure = Cause.findErrorOption(exit.cause)
  return Option.isSome(failure) ? failure : yield* Effect.failCause(exit.cause as Cause.Cause<never>)
})

/** How far the cancellation has come, by this process and by the table. A failed intent fails here. Source: SP-LEASE-05. */
export const readCancellation = Effect.fnUntraced(function* (held: HeldExecution) {
  const store = yield* LeaseStore
  const failure = yield* awaitIntent(held)
  if (Option.isSome(failure)) return yield* failure.value
  const stored = yield* store.cancellation(held.lease.id)
  held.cancel = furtherMarker(
    held.cancel,
    Option.getOrElse(stored, () => "none" as const)
  )
  return held.cancel
})

/**
 * Asks for the cancellation of one execution, whichever process holds it, and answers how far it has come. A holder
 * in this process learns it at once, one elsewhere with its next heartbeat. Refused with `LeaseNotFound`.
 */
export const requestCancel = Effect.fn("leases.requestCancel")(function* (id: LeaseId) {
  const { executions } = yield* HeldLeases
  const store = yield* LeaseStore
  const held = executions.get(id)
  if (held?.phase === "held") {
    yield* intendCancel(held)
    return yield* readCancellation(held)
  }
  const marker = yield* store.requestCancel(id)
  if (Option.isNone(marker)) return yield* new LeaseNotFound({ lease: id })
  return marker.value
})

/**
 * Asks for the cancellation of every execution of a Project and answers the leases that have yet to end. Holders in
 * this process learn it even where the database fails. Used by the Project's removal. Source: SP-DEL-10.
 */
export const cancelExecutionsOf = Effect.fn("leases.cancelExecutionsOf")(function* (project: ProjectId) {
  const { executions } = yield* HeldLeases
  const store = yield* LeaseStore
  const writing = yield* store
    .requestCancelOf(project)
    .pipe(Effect.tapError(report(`the executions of project ${project}`)), Effect.forkDetach)
  for (const held of executions.held()) {
    if (held.lease.project === project) signal(held, writing)
  }
  return yield* Fiber.join(writing)
})

/** What is signalled is no row, so the access is that of the moment before. */
const requireWrite = Effect.fnUntraced(function* (caller: Caller, project: ProjectId) {
  const db = yield* PluginDb
  const accounts = yield* HostAccounts
  yield* db.snapshot("leases.requireWrite", accounts.requireAccess(caller, project, "write"))
})

/**
 * The same for somebody who asks: refused with `AccessRefused` unless he may write to the Project. Source: SP-ADM-04.
 */
export const cancelExecutionsFor = Effect.fn("leases.cancelExecutionsFor")(function* (
  caller: Caller,
  project: ProjectId
) {
  yield* requireWrite(caller, project)
  return yield* cancelExecutionsOf(project)
})

/**
 * Asks for the cancellation of one execution for somebody who may write to its Project. Refused with `LeaseNotFound`,
 * `AccessRefused`. Source: SP-ADM-04.
 */
export const cancelExecutionFor = Effect.fn("leases.cancelExecutionFor")(function* (
  caller: Caller,
  id: LeaseId
) {
  const { executions } = yield* HeldLeases
  const store = yield* LeaseStore
  const project =
    executions.get(id)?.lease.project ??
    Option.getOrUndefined(Option.map(yield* store.byId(id), (lease) => lease.project))
  if (project === undefined) return yield* new LeaseNotFound({ lease: id })
  yield* requireWrite(caller, project)
  return yield* requestCancel(id)
})
