/**
 * Brings every record of the node and its guest together: adopts what runs, ends what is half there, goes on with
 * deletions, and says of a lost guest that it failed, keeping its charge. Takes no input and is repeated by the
 * sweep; one failing sandbox does not hold up the others, and one that somebody works on is left to him. Source:
 * RG-RUN-02, RG-RUN-03, RG-DEL-02.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { deletionsAtOnceMax } from "../Bounds.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { SandboxId } from "../Identity.ts"
import { reconcile, type Verdict } from "./reconcile.ts"
import { Registry } from "./Registry.ts"
import { continueDeletion } from "./removal.ts"
import { setStatus } from "./status.ts"

/** What was done for one sandbox. `busy` was left to whoever works on it; `failed` says why, and is tried again. */
export interface Reconciled {
  readonly sandbox: SandboxId
  readonly verdict: Verdict["act"] | "busy" | "failed"
  readonly why: string | null
}

const answer = (
  sandbox: SandboxId,
  verdict: Reconciled["verdict"],
  why: string | null = null
): Reconciled => ({ sandbox, verdict, why })

const look = Effect.fnUntraced(function* (sandbox: SandboxId) {
  const registry = yield* Registry
  const record = yield* registry.get(sandbox)
  // A deletion needs no look: it makes its own.
  if (record.deletion !== null) return { act: "delete" } satisfies Verdict
  return reconcile(record, yield* (yield* GuestSupervisor).inspect(sandbox))
})

const act = Effect.fnUntraced(function* (sandbox: SandboxId, verdict: Verdict) {
  if (verdict.act === "delete") yield* continueDeletion(sandbox)
  if (verdict.act === "status") {
    const { reason, status } = verdict
    yield* setStatus(sandbox, { status, reason, wanted: "reconciliation" })
  }
})

const settle = Effect.fnUntraced(function* (sandbox: SandboxId) {
  const verdict = yield* look(sandbox)
  yield* act(sandbox, verdict)
  if (verdict.act === "end") {
    yield* (yield* GuestSupervisor).end(sandbox, { graceMillis: 0 })
    const after = yield* look(sandbox)
    if (after.act === "end") {
      return answer(sandbox, "failed", "what is left of its guest could not be ended")
    }
    yield* act(sandbox, after)
  }
  return answer(sandbox, verdict.act)
})

/** Under the sandbox's gate, so that a start or stop in progress is never judged half way. */
const reconcileOne = Effect.fnUntraced(function* (sandbox: SandboxId) {
  const registry = yield* Registry
  const settled = yield* registry.exclusiveIfFree(sandbox, settle(sandbox)).pipe(
    Effect.catchTag("SandboxNotFound", () => Effect.succeedSome(answer(sandbox, "keep"))),
    Effect.catchIf(
      (failure) => failure._tag !== "StorageFailed",
      ({ message }) => Effect.succeedSome(answer(sandbox, "failed", message))
    )
  )
  return Option.getOrElse(settled, () => answer(sandbox, "busy"))
})

/**
 * One pass over the node's records; answers what was done for each, in no order. Fails only with `StorageFailed`.
 */
export const reconcileSandboxes = Effect.gen(function* () {
  const registry = yield* Registry
  const inventory = yield* registry.inventory
  const reconciled: ReadonlyArray<Reconciled> = yield* Effect.forEach(inventory.keys(), reconcileOne, {
    concurrency: deletionsAtOnceMax
  })
  for (const { sandbox, verdict, why } of reconciled) {
    if (verdict === "failed") yield* Effect.logWarning(`${sandbox} was not reconciled: ${why}`)
  }
  return reconciled
}).pipe(Effect.withSpan("registry.reconcileSandboxes"))
