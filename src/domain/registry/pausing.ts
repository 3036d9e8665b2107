/**
 * Pausing and resuming a sandbox. The record says what is about to be done before it is done; when that fails, the
 * record follows what the guest was then seen to be. Source: RG figures, RG-COM-04.
 */
import * as Effect from "effect/Effect"
import { GuestCallUnsupported, GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { SandboxId } from "../Identity.ts"
import type { SandboxStatus } from "./Record.ts"
import { Registry, SandboxStateRefused } from "./Registry.ts"
import { isOwnGuest, requireKept, setStatus } from "./status.ts"

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
