/**
 * Is the sandbox's own guest there now, and does its agent answer? Asked of the kernel and of the guest at every
 * create, inspection and resume: what was seen before proves nothing. Source: RG-RUN-01, RG-RUN-04.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { SandboxId } from "../Identity.ts"
import { EndpointUnavailable, SandboxExpired } from "./NodeRefusals.ts"
import type { SandboxRecord } from "./Record.ts"
import { SandboxStateRefused } from "./Registry.ts"
import { endReason, isOwnGuest, requireKept } from "./status.ts"

/** `why` tells why it is not ready, in one sentence. */
export interface Readiness {
  readonly ready: boolean
  readonly why: string | null
}

const notReady = (why: string): Readiness => ({ ready: false, why })

/** Looks at the guest itself; a look that fails is an answer too. */
export const lookAtReadiness = Effect.fn("registry.lookAtReadiness")(function* (record: SandboxRecord) {
  const supervisor = yield* GuestSupervisor
  if (record.deletion !== null) return notReady("it is being deleted")
  const look = Effect.gen(function* () {
    const observation = yield* supervisor.inspect(record.id)
    switch (observation._tag) {
      case "Running":
        if (!isOwnGuest(record, observation)) return notReady("a guest of another attempt holds its place")
        if (record.status !== "Running") return notReady(`its record says ${record.status}`)
        yield* supervisor.ping(record.id)
        return { ready: true, why: null }
      case "Paused":
        return notReady("its guest is paused")
      case "Gone":
        return notReady(`its guest ${endReason(observation)}`)
      case "Unsettled":
      case "Uncertain":
        return notReady(observation.why)
    }
  })
  return yield* Effect.catch(look, ({ message }) => Effect.succeed(notReady(message)))
})

/** Refused with `SandboxExpired` once the life of the record is over. */
export const requireAlive = Effect.fnUntraced(function* (record: SandboxRecord) {
  const nowMillis = yield* Clock.currentTimeMillis
  if (record.expiresAtMillis > nowMillis) return record
  return yield* new SandboxExpired({ sandbox: record.id, expiredAtMillis: record.expiresAtMillis })
})

/** The record of a sandbox that may be worked in: kept, not expired, and running. */
export const requireRunning = Effect.fnUntraced(function* (sandbox: SandboxId, wanted: string) {
  const record = yield* Effect.flatMap(requireKept(sandbox, wanted), requireAlive)
  if (record.status === "Running") return record
  return yield* new SandboxStateRefused({ sandbox, status: record.status, wanted })
})

/** Refused with `EndpointUnavailable` unless the guest is there and answers. */
export const requireReady = Effect.fnUntraced(function* (record: SandboxRecord) {
  const { ready, why } = yield* lookAtReadiness(record)
  if (ready) return record
  return yield* new EndpointUnavailable({ sandbox: record.id, why: why ?? "" })
})
