/**
 * Carries out a request for a sandbox that has a key: the same key with the same request is the same sandbox, however
 * often it is asked, also after a restart or a crash in between; with another request it is refused. The sandbox's id
 * is made of the key, so that the record, and after it the tombstone, is the memory of the key: there is no other
 * table, and nothing of it grows or is forgotten by itself. Source: RG figures (IDEMPOTENCY_CONFLICT), RG-DEL-10.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { RequestOrigin } from "../reclamation/Provenance.ts"
import { RunState } from "../reclamation/RunState.ts"
import { createSandbox } from "./creation.ts"
import { startSandbox } from "./lifecycle.ts"
import { IdempotencyConflict, SandboxCreateFailed } from "./NodeRefusals.ts"
import { requireAlive, requireReady } from "./readiness.ts"
import { Registry, SandboxStateRefused } from "./Registry.ts"
import type { SandboxRequest } from "./sandboxRequest.ts"

/** A request under a key; `id` belongs to the key. */
export interface KeyedRequest extends SandboxRequest {
  readonly origin: RequestOrigin
}

const conflict = ({ id, origin }: KeyedRequest) => new IdempotencyConflict({ key: origin.key, sandbox: id })

/** The key's sandbox is gone: the tombstone still knows whose request it was. */
const refuseSpent = Effect.fnUntraced(function* (request: KeyedRequest) {
  const tombstone = Option.getOrUndefined(yield* (yield* RunState).readTombstone(request.id))
  if (tombstone?.provenance?.origin?.hash !== request.origin.hash) return yield* conflict(request)
  return yield* new SandboxStateRefused({ sandbox: request.id, status: "deleted", wanted: "create" })
})

const admit = Effect.fnUntraced(function* (request: KeyedRequest) {
  const existing = (yield* (yield* Registry).inventory).get(request.id)
  if (existing !== undefined && existing.origin?.hash !== request.origin.hash) return yield* conflict(request)
  const record = yield* createSandbox(request).pipe(
    Effect.catchTag("SandboxIdTaken", ({ by }) =>
      by === "tombstone" ? refuseSpent(request) : Effect.fail(conflict(request))
    )
  )
  // Two requests at once under one key: the other one may have got in first.
  return record.origin?.hash === request.origin.hash ? record : yield* conflict(request)
})

/**
 * Admits, starts and waits until the guest answers; answers the record. A request that was carried out before is
 * answered as it stands now, whatever has become of the sandbox; one that was interrupted or failed goes on. Refused
 * with `IdempotencyConflict`, with what `createSandbox` refuses, with `SandboxCreateFailed` when the guest did not
 * come up, `EndpointUnavailable` when it does not answer, and `SandboxExpired`.
 */
export const createRequested = Effect.fn("registry.createRequested")(function* (request: KeyedRequest) {
  const registry = yield* Registry
  const admitted = yield* admit(request)
  if (admitted.origin?.startedAtMillis != null) return admitted
  yield* requireAlive(admitted)
  yield* startSandbox(request.id).pipe(
    Effect.catchTag(["GuestFailure", "GuestSpecRefused", "GuestStateRefused"], ({ message }) =>
      Effect.fail(new SandboxCreateFailed({ sandbox: request.id, why: message }))
    )
  )
  return yield* requireReady(yield* registry.get(request.id))
})
