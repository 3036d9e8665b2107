/**
 * One gate a sandbox: native work on the same sandbox is done by one fiber at a time, work on others goes on. A gate
 * exists only while somebody is at it, so that asking for unknown ids cannot grow memory. Source: RG figures, RG-COM-04.
 */
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import type { SandboxId } from "../Identity.ts"

interface Gate {
  readonly turn: Semaphore.Semaphore
  users: number
}

export const makeGates = () => {
  const gates = new Map<SandboxId, Gate>()
  const enter = (sandbox: SandboxId): Gate => {
    const gate = gates.get(sandbox) ?? { turn: Semaphore.makeUnsafe(1), users: 0 }
    gate.users += 1
    gates.set(sandbox, gate)
    return gate
  }
  const leave = (sandbox: SandboxId, gate: Gate): void => {
    gate.users -= 1
    if (gate.users === 0) gates.delete(sandbox)
  }
  const exclusive = <A, E, R>(sandbox: SandboxId, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.acquireUseRelease(
      Effect.sync(() => enter(sandbox)),
      (gate) => gate.turn.withPermits(1)(effect),
      (gate) => Effect.sync(() => leave(sandbox, gate))
    )
  return {
    exclusive,
    exclusiveIfFree: <A, E, R>(
      sandbox: SandboxId,
      effect: Effect.Effect<A, E, R>
    ): Effect.Effect<Option.Option<A>, E, R> =>
      Effect.suspend(() =>
        gates.has(sandbox) ? Effect.succeedNone : Effect.asSome(exclusive(sandbox, effect))
      ),
    /** How many gates there are now. */
    size: (): number => gates.size
  }
}
