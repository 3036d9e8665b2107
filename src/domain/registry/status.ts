/**
 * What the record of a sandbox says of its state, and the one way to change it. Every change is durable when it
 * returns; one on a sandbox that is being deleted is refused, since only its deletion goes on. Source: RG-DEL-01,
 * RG-BUD-03.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { statusMomentsKeptMax } from "../Bounds.ts"
import type { GuestObservation } from "../guests/GuestSupervisor.ts"
import type { SandboxId } from "../Identity.ts"
import { SandboxRecord, type SandboxStatus } from "./Record.ts"
import { Registry, SandboxStateRefused } from "./Registry.ts"

/** What is changed of a record. `wanted` names the caller's wish in the refusal. */
export interface StatusChange {
  readonly status: SandboxStatus
  /** One sentence of ours, or null. */
  readonly reason: string | null
  readonly wanted: string
  /** A fresh attempt, and its run. */
  readonly attempt?: { readonly runId: string; readonly attemptId: string }
}

const isDeleted = (sandbox: SandboxId, wanted: string) =>
  new SandboxStateRefused({ sandbox, status: "being deleted", wanted })

/** The moments with one more, without the oldest where there are too many. */
const remembered = (record: SandboxRecord, { status, wanted }: StatusChange, atMillis: number) =>
  [...(record.history ?? []), { status, atMillis, wanted }].slice(-statusMomentsKeptMax)

/**
 * The record in its new state, with the moment. The first run of a requested sandbox is noted on its origin: the
 * request is carried out. Pure.
 */
export const withStatus = (record: SandboxRecord, change: StatusChange, atMillis: number): SandboxRecord => {
  const { attempt, reason: statusReason, status } = change
  const { origin } = record
  const isNews = status !== record.status || attempt !== undefined
  const isFirstRun = origin !== undefined && origin.startedAtMillis === null && status === "Running"
  return new SandboxRecord({
    ...record,
    ...attempt,
    status,
    statusReason,
    ...(isFirstRun ? { origin: { ...origin, startedAtMillis: atMillis } } : {}),
    ...(isNews ? { history: remembered(record, change, atMillis) } : {})
  })
}

/** Where the budget has no room for another moment, the remembered ones make it: a state is never lost to them. */
const withoutHistory = (record: SandboxRecord): SandboxRecord => {
  const { history: _, ...kept } = record
  return new SandboxRecord(kept)
}

export const setStatus = Effect.fnUntraced(function* (sandbox: SandboxId, change: StatusChange) {
  const registry = yield* Registry
  const atMillis = yield* Clock.currentTimeMillis
  const put = (trim: (record: SandboxRecord) => SandboxRecord) =>
    registry.update(sandbox, (record) =>
      record.deletion === null
        ? Result.succeed(trim(withStatus(record, change, atMillis)))
        : Result.fail(isDeleted(sandbox, change.wanted))
    )
  return yield* put((record) => record).pipe(Effect.catchTag("RegistryFull", () => put(withoutHistory)))
})

/** The record, unless it is being deleted. */
export const requireKept = Effect.fnUntraced(function* (sandbox: SandboxId, wanted: string) {
  const record = yield* (yield* Registry).get(sandbox)
  return record.deletion === null ? record : yield* isDeleted(sandbox, wanted)
})

/** Whether the observed guest is the one that the record names: by generation, run and attempt. Source: RG-RUN-02. */
export const isOwnGuest = (
  record: SandboxRecord,
  observation: Extract<GuestObservation, { readonly _tag: "Running" | "Paused" }>
): boolean => {
  const { attemptId, generation, runId } = observation.identity
  return generation === record.generation && runId === record.runId && attemptId === record.attemptId
}

/** How a guest that is gone has ended, in one sentence. */
export const endReason = (observation: Extract<GuestObservation, { readonly _tag: "Gone" }>): string => {
  if (observation.evidence._tag === "BootChanged") return "lost to a reboot of the machine"
  const exitCode = observation.exit?.exitCode ?? null
  return exitCode === null ? "ended, and its exit was not seen" : `ended with exit code ${exitCode}`
}
