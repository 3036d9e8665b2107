/**
 * Deleting a sandbox: the intent is durable before anything native is touched, and the record with its reservation
 * goes only for a proof of absence. It may die anywhere and be asked again. Source: RG-DEL-01, RG-DEL-05, BX-02.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { guestStopGraceMillis } from "../Bounds.ts"
import type { SandboxId } from "../Identity.ts"
import { reclaimSandbox } from "../reclamation/reclamation.ts"
import { RunState } from "../reclamation/RunState.ts"
import { putIntent, withIntent } from "./intent.ts"
import { provenanceOf } from "./provenance.ts"
import { observeStep } from "./observeStep.ts"
import type { DeletionIntent } from "./Record.ts"
import { Registry, SandboxNotFound } from "./Registry.ts"

const program = "registry.deleteSandbox"

/** Who asks, and why; the first asker's words stay. Source: FC-22. */
export type DeletionWish = Pick<typeof DeletionIntent.Type, "reason" | "actor">

const intend = Effect.fnUntraced(function* (sandbox: SandboxId, wish: DeletionWish) {
  const requestedAtMillis = yield* Clock.currentTimeMillis
  return yield* putIntent(sandbox, (record) =>
    Result.succeed(withIntent(record, { ...wish, requestedAtMillis }))
  )
})

/** The proof of a sandbox whose record went before; none was ever here without record and tombstone. */
const provedBefore = Effect.fnUntraced(function* (sandbox: SandboxId) {
  const runState = yield* RunState
  const tombstone = yield* runState.readTombstone(sandbox)
  return Option.isSome(tombstone) ? tombstone.value.proof : yield* new SandboxNotFound({ sandbox })
})

/** Reclaims what the intent is about; the record may have gone while the gate was waited for. */
const carryOut = Effect.fnUntraced(function* (sandbox: SandboxId) {
  const registry = yield* Registry
  const runState = yield* RunState
  const record = yield* registry.get(sandbox)
  // What the tombstone remembers is for people: an identity that cannot be read does not hold the deletion up.
  const identity = yield* Effect.catch(runState.readIdentity(sandbox), () => Effect.succeedNone)
  const proof = yield* reclaimSandbox(sandbox, {
    graceMillis: guestStopGraceMillis,
    generation: record.generation,
    provenance: provenanceOf(record, Option.getOrNull(identity))
  })
  yield* observeStep(program, "record", registry.remove(proof))
  return proof
})

/**
 * Goes on with a deletion whose intent is durable, and answers the proof. The caller has the sandbox to himself.
 */
export const continueDeletion = (sandbox: SandboxId) =>
  carryOut(sandbox).pipe(Effect.catchTag("SandboxNotFound", () => provedBefore(sandbox)))

/**
 * Deletes the sandbox and answers the proof of its absence, the same one each time. The intent is durable at once,
 * so that a start in progress cannot outlive it; the rest waits for its turn. Refused with `SandboxNotFound` where
 * there is neither record nor tombstone, and with what `reclaimSandbox` refuses; then record and charge stay. A
 * caller who hangs up does not cancel it.
 */
export const deleteSandbox = Effect.fn(program)(function* (sandbox: SandboxId, wish: DeletionWish) {
  const registry = yield* Registry
  const intent = observeStep(program, "intent", intend(sandbox, wish))
  return yield* Effect.andThen(intent, registry.exclusive(sandbox, continueDeletion(sandbox))).pipe(
    Effect.catchTag("SandboxNotFound", () => provedBefore(sandbox))
  )
}, Effect.uninterruptible)
