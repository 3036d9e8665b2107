/**
 * Starting, stopping, pausing and resuming a sandbox: what is about to be done is on its record before it is done, and
 * what came of it after. No registry lock is held over guest work; one fiber at a time works on one sandbox. Source: RG-COM-04,
 * RG-RUN-02, RG-RUN-03.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { proveAbsence } from "../guests/absence.ts"
import { GuestCallUnsupported, type GuestObservation, GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { Identifiers } from "../Identifiers.ts"
import type { SandboxId } from "../Identity.ts"
import { specOf } from "./creation.ts"
import { observeStep } from "./observeStep.ts"
import type { SandboxRecord, SandboxStatus } from "./Record.ts"
import { Registry, SandboxStateRefused } from "./Registry.ts"
import { endReason, isOwnGuest, requireKept, setStatus } from "./status.ts"

const startProgram = "registry.startSandbox"
const stopProgram = "registry.stopSandbox"

/** A fresh attempt, durable before the launch: no guest of an earlier one can then be taken for this one's. */
const beginAttempt = Effect.fnUntraced(function* (sandbox: SandboxId) {
  const { uuid } = yield* Identifiers
  const attempt = { runId: yield* uuid, attemptId: yield* uuid }
  return yield* setStatus(sandbox, { status: "Pending", reason: null, wanted: "start", attempt })
})

/** What went wrong stands on the record, charged. A caller who leaves meanwhile leaves it to reconciliation. */
const launch = Effect.fnUntraced(function* (sandbox: SandboxId) {
  const supervisor = yield* GuestSupervisor
  const record = yield* observeStep(startProgram, "attempt", beginAttempt(sandbox))
  const identity = yield* observeStep(startProgram, "launch", supervisor.start(specOf(record))).pipe(
    Effect.tapError(({ message }) =>
      Effect.uninterruptible(setStatus(sandbox, { status: "Failed", reason: message, wanted: "start" }))
    )
  )
  yield* observeStep(
    startProgram,
    "running",
    setStatus(sandbox, { status: "Running", reason: null, wanted: "start" })
  )
  return identity
})

const refuseStart = (sandbox: SandboxId, status: string) =>
  new SandboxStateRefused({ sandbox, status, wanted: "start" })

/** Adopts the record's own guest, and launches only from certain absence. */
const converge = Effect.fnUntraced(function* (record: SandboxRecord, observation: GuestObservation) {
  const sandbox = record.id
  switch (observation._tag) {
    case "Running": {
      if (!isOwnGuest(record, observation)) return yield* refuseStart(sandbox, "held by another attempt")
      if (record.status === "Stopping") return yield* refuseStart(sandbox, "Stopping")
      yield* setStatus(sandbox, { status: "Running", reason: null, wanted: "start" })
      return observation.identity
    }
    case "Paused":
      return yield* refuseStart(sandbox, "Paused")
    case "Uncertain":
      return yield* refuseStart(sandbox, "Uncertain")
    case "Unsettled": {
      const ended = yield* (yield* GuestSupervisor).end(sandbox, { graceMillis: 0 })
      return ended._tag === "Gone" ? yield* launch(sandbox) : yield* refuseStart(sandbox, ended._tag)
    }
    case "Gone":
      return yield* observation.tombstone ? refuseStart(sandbox, "reclaimed") : launch(sandbox)
  }
})

/**
 * Brings the sandbox up and answers its guest's identity. The running guest of the record's own attempt is adopted;
 * there is never a second one. A failed launch leaves the record Failed, and charged. Refused with
 * `SandboxStateRefused` while it is paused, being stopped or deleted, or held by a guest that is not its own.
 */
export const startSandbox = Effect.fn(startProgram)(function* (sandbox: SandboxId) {
  const registry = yield* Registry
  const supervisor = yield* GuestSupervisor
  return yield* registry.exclusive(
    sandbox,
    Effect.gen(function* () {
      const record = yield* requireKept(sandbox, "start")
      return yield* converge(record, yield* supervisor.inspect(sandbox))
    })
  )
})

const stop = Effect.fnUntraced(function* (sandbox: SandboxId, options: { readonly graceMillis: number }) {
  const registry = yield* Registry
  const supervisor = yield* GuestSupervisor
  const record = yield* registry.get(sandbox)
  // The record of a sandbox that is being deleted stays as it is; its guest may be ended all the same.
  const isKept = record.deletion === null
  if (isKept && record.status !== "Terminated") {
    yield* observeStep(
      stopProgram,
      "stopping",
      setStatus(sandbox, { status: "Stopping", reason: record.statusReason, wanted: "stop" })
    )
  }
  const observation = yield* observeStep(stopProgram, "end", supervisor.end(sandbox, options))
  if (observation._tag !== "Gone") {
    const observedAtMillis = yield* Clock.currentTimeMillis
    yield* Effect.fromResult(proveAbsence(sandbox, observation, { observedAtMillis }))
  } else if (isKept && record.status !== "Terminated") {
    yield* observeStep(
      stopProgram,
      "terminated",
      setStatus(sandbox, { status: "Terminated", reason: endReason(observation), wanted: "stop" })
    )
  }
  return observation
})

/**
 * Ends the guest and keeps record and charge: Terminated, with the reason. Idempotent. The guest has the grace to
 * end by itself. Answers the observation of its absence; refused with `AbsenceNotProved` when it could not be ended,
 * and the record stays Stopping.
 */
export const stopSandbox = Effect.fn(stopProgram)(function* (
  sandbox: SandboxId,
  options: { readonly graceMillis: number }
) {
  const registry = yield* Registry
  return yield* registry.exclusive(sandbox, stop(sandbox, options))
})

interface Direction {
  readonly call: "pause" | "resume"
  readonly from: SandboxStatus
  readonly through: SandboxStatus
  readonly to: SandboxStatus
}

const pausing: Direction = { call: "pause", from: "Running", through: "Pausing", to: "Paused" }
const resuming: Direction = { call: "resume", from: "Paused", through: "Resuming", to: "Running" }

/** After a failure: the state that the guest shows, where it shows one of the two. */
const followGuest = Effect.fnUntraced(function* (sandbox: SandboxId, wanted: string) {
  const registry = yield* Registry
  const observation = yield* (yield* GuestSupervisor).inspect(sandbox)
  if (observation._tag !== "Running" && observation._tag !== "Paused") return
  if (!isOwnGuest(yield* registry.get(sandbox), observation)) return
  yield* setStatus(sandbox, { status: observation._tag, reason: null, wanted })
})

const turn = Effect.fnUntraced(function* (sandbox: SandboxId, direction: Direction) {
  const supervisor = yield* GuestSupervisor
  const { call, from, through, to } = direction
  if (!supervisor.capabilities.pause) {
    return yield* new GuestCallUnsupported({ call, why: "this supervisor cannot pause a guest" })
  }
  const record = yield* requireKept(sandbox, call)
  if (record.status === to) return record
  if (record.status !== from && record.status !== through) {
    return yield* new SandboxStateRefused({ sandbox, status: record.status, wanted: call })
  }
  yield* setStatus(sandbox, { status: through, reason: null, wanted: call })
  yield* supervisor[call](sandbox).pipe(
    Effect.tapError(() => Effect.ignore(Effect.uninterruptible(followGuest(sandbox, call))))
  )
  return yield* setStatus(sandbox, { status: to, reason: null, wanted: call })
})

/**
 * Freezes the running guest and answers its record, Paused and charged. One that is paused already is answered.
 * Refused with `GuestCallUnsupported` where the supervisor cannot, and with `SandboxStateRefused` unless it runs.
 */
export const pauseSandbox = Effect.fn("registry.pauseSandbox")(function* (sandbox: SandboxId) {
  return yield* (yield* Registry).exclusive(sandbox, turn(sandbox, pausing))
})

/** Lets a paused guest go on and answers its record. Refused as a pause is. */
export const resumeSandbox = Effect.fn("registry.resumeSandbox")(function* (sandbox: SandboxId) {
  return yield* (yield* Registry).exclusive(sandbox, turn(sandbox, resuming))
})
