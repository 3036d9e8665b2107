/**
 * The record of a sandbox whose own guest runs now, by the kernel's word: what is done to a guest in its sandbox's name
 * is done to no other. Source: RG-RUN-01, RG-RUN-04.
 */
import * as Effect from "effect/Effect"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { SandboxId } from "../Identity.ts"
import { EndpointUnavailable } from "./NodeRefusals.ts"
import { requireRunning } from "./readiness.ts"
import { isOwnGuest } from "./status.ts"

/** Refused unless the record says Running and is kept, and with `EndpointUnavailable` unless its own guest runs. */
export const requireOwnGuest = Effect.fnUntraced(function* (sandbox: SandboxId, wanted: string) {
  const supervisor = yield* GuestSupervisor
  const record = yield* requireRunning(sandbox, wanted)
  const observation = yield* supervisor.inspect(sandbox)
  if (observation._tag === "Running" && isOwnGuest(record, observation)) return record
  return yield* new EndpointUnavailable({ sandbox, why: "its own guest is not running" })
})
