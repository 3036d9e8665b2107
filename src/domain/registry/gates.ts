/**
 * One gate a sandbox, or whatever else has an id: work on the same one is done by one fiber at a time in the order of its
 * asking, work on others goes on. A gate exists only while somebody is at it, so that asking for unknown ids cannot grow
 * memory. Source: RG figures, RG-COM-04, SP-DESK-02.
 */
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"

interface Gate {
  readonly turn: Semaphore.Semaphore
  users: number
}

export const makeGates = <Id>() => {
  const gates = new Map<Id, Gate>()
  const enter = (id: Id): Gate => {
    const gate = gates.get(id) ?? { turn: Semaphore.makeUnsafe(1), users: 0 }
    gate.users += 1
    gates.set(id, gate)
    return gate
  }
  const leave = (id: Id, gate: Gate): void => {
    gate.users -= 1
    if (gate.users === 0) gates.delete(id)
  }
  const exclusive = <A, E, R>(id: Id, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.acquireUseRelease(
      Effect.sync(() => enter(id)),
      (gate) => gate.turn.withPermits(1)(effect),
      (gate) => Effect.sync(() => leave(id, gate))
    )
  return {
    exclusive,
    exclusiveIfFree: <A, E, R>(
      id: Id,
      effect: Effect.Effect<A, E, R>
    ): Effect.Effect<Option.Option<A>, E, R> =>
      Effect.suspend(() => (gates.has(id) ? Effect.succeedNone : Effect.asSome(exclusive(id, effect)))),
    /** How many gates there are now. */
    size: (): number => gates.size
  }
}
