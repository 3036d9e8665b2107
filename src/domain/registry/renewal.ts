/**
 * Longer life for a sandbox. A renewal extends and lies in the future, and is decided on the committed record: one that
 * gets in before the deletion's intent wins, one that comes after is refused. Source: RG figures (life of a sandbox),
 * RG-DEL-09.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { SandboxId } from "../Identity.ts"
import { SandboxExpired } from "./NodeRefusals.ts"
import { SandboxRecord } from "./Record.ts"
import { Registry, SandboxStateRefused } from "./Registry.ts"
import { findLifeFault, InvalidSandboxRequest } from "./sandboxRequest.ts"

/** The record with its new end, or why not. Pure. */
export const decideRenewal = (
  record: SandboxRecord,
  expiresAtMillis: number
): Result.Result<SandboxRecord, InvalidSandboxRequest | SandboxExpired | SandboxStateRefused> => {
  const { deletion, id: sandbox } = record
  if (deletion !== null) {
    return Result.fail(
      deletion.reason === "expired"
        ? new SandboxExpired({ sandbox, expiredAtMillis: record.expiresAtMillis })
        : new SandboxStateRefused({ sandbox, status: "being deleted", wanted: "renewal" })
    )
  }
  return expiresAtMillis > record.expiresAtMillis
    ? Result.succeed(new SandboxRecord({ ...record, expiresAtMillis }))
    : Result.fail(
        new InvalidSandboxRequest({ field: "lifeSeconds", why: "must end later than the life that it has" })
      )
}

/**
 * Lets the sandbox live `lifeSeconds` from now, and answers its record. Refused with `InvalidSandboxRequest` when that
 * is out of bounds or no longer than it lives anyway, with `SandboxExpired` or `SandboxStateRefused` once its deletion
 * is intended.
 */
export const renewSandbox = Effect.fn("registry.renewSandbox")(function* (
  sandbox: SandboxId,
  options: { readonly lifeSeconds: number; readonly lifeSecondsMax: number }
) {
  const registry = yield* Registry
  const fault = findLifeFault(options.lifeSeconds, options.lifeSecondsMax)
  if (fault !== null) return yield* fault
  const expiresAtMillis = (yield* Clock.currentTimeMillis) + options.lifeSeconds * 1_000
  return yield* registry.update(sandbox, (record) => decideRenewal(record, expiresAtMillis))
})
