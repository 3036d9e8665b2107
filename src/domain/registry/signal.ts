/** A signal to the main command of a sandbox's own guest, while nobody else works on the sandbox. */
import * as Effect from "effect/Effect"
import type { GuestSignal } from "../guests/GuestSpec.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { SandboxId } from "../Identity.ts"
import { requireOwnGuest } from "./ownGuest.ts"
import { Registry } from "./Registry.ts"

/**
 * Sends it and changes no record: what the command makes of it is seen by the next look. Refused with
 * `SandboxStateRefused` or `SandboxExpired` unless the sandbox runs and is kept, with `EndpointUnavailable` when its own
 * guest is not there, with `GuestCallUnsupported` for a guest without a main command.
 */
export const signalSandbox = Effect.fn("registry.signalSandbox")(function* (
  sandbox: SandboxId,
  signal: GuestSignal
) {
  const registry = yield* Registry
  const supervisor = yield* GuestSupervisor
  return yield* registry.exclusive(
    sandbox,
    Effect.andThen(requireOwnGuest(sandbox, "signal"), supervisor.signal(sandbox, signal))
  )
})
