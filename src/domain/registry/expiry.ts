/**
 * The end of a sandbox whose life is over: the node deletes it itself, as anybody else would, with the intent first.
 * Whether it is over is asked again under its gate and on the committed record, so that a renewal that got in first
 * wins, and one that comes after the intent is refused. Source: RG-DEL-09, FC-22.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { SandboxId } from "../Identity.ts"
import { putIntent, withIntent } from "./intent.ts"
import { observeStep } from "./observeStep.ts"
import type { SandboxRecord } from "./Record.ts"
import { Registry } from "./Registry.ts"
import { continueDeletion } from "./removal.ts"

const program = "registry.expireSandbox"

/** Who deletes what has expired. */
export const expiryActor = "node"

/** - `expired`: it was deleted. `kept`: it lives longer by now. `busy`: somebody works on it. */
export type Expiry = "expired" | "kept" | "busy"

/** Whether a record's life is over, by the clock of this moment. */
export type LifeJudge = Effect.Effect<(record: SandboxRecord) => boolean>

class StillAlive {
  readonly _tag = "StillAlive"
}

/** The record with the intent to delete it; one that has an intent keeps it. Pure. */
const decideExpiry =
  (isOver: (record: SandboxRecord) => boolean, requestedAtMillis: number) =>
  (record: SandboxRecord): Result.Result<SandboxRecord, StillAlive> => {
    if (record.deletion !== null) return Result.succeed(record)
    if (!isOver(record)) return Result.fail(new StillAlive())
    return Result.succeed(withIntent(record, { reason: "expired", actor: expiryActor, requestedAtMillis }))
  }

/**
 * Deletes the sandbox if its life is over when its turn has come, and answers what became of it. Somebody who works on
 * it is not waited for: it is asked again. Fails as a deletion does; then the intent stays and reconciliation goes on.
 */
export const expireSandbox = Effect.fn(program)(function* (sandbox: SandboxId, judge: LifeJudge) {
  const registry = yield* Registry
  const expire = Effect.gen(function* () {
    const isOver = yield* judge
    const nowMillis = yield* Clock.currentTimeMillis
    yield* observeStep(program, "intent", putIntent(sandbox, decideExpiry(isOver, nowMillis)))
    yield* continueDeletion(sandbox)
    return "expired" as const
  }).pipe(
    // Gone meanwhile, and not by us: there is nothing left to expire.
    Effect.catchTag(["StillAlive", "SandboxNotFound"], () => Effect.succeed("kept" as const))
  )
  const outcome: Option.Option<Expiry> = yield* registry.exclusiveIfFree(sandbox, expire)
  return Option.getOrElse(outcome, (): Expiry => "busy")
})
