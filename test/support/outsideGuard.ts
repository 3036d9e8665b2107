/**
 * Wraps a port that reaches outside the database, so that its use while a transaction is open in the fiber fails the
 * test: at once by a defect, and again when the scope closes, should the program have swallowed it. Source: SP-TX-08.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as Context from "effect/Context"
import type * as Scope from "effect/Scope"
import { PluginTx } from "../../src/domain/persistence/PluginDb.ts"

export class OutsideUsedInside extends Data.TaggedError("OutsideUsedInside")<{ readonly call: string }> {
  override get message(): string {
    return `${this.call} was used while a transaction is open`
  }
}

const checked = <A, E, R>(call: string, effect: Effect.Effect<A, E, R>, seen: Array<string>) =>
  Effect.flatMap(Effect.serviceOption(PluginTx), (tx) => {
    if (Option.isNone(tx)) return effect
    seen.push(call)
    return Effect.die(new OutsideUsedInside({ call }))
  })

const wrap = (call: string, member: unknown, owner: object, seen: Array<string>): unknown => {
  if (Effect.isEffect(member)) return checked(call, member, seen)
  if (typeof member !== "function") return member
  return (...given: ReadonlyArray<unknown>) => {
    const answer: unknown = Reflect.apply(member, owner, given)
    if (Stream.isStream(answer)) return Stream.unwrap(checked(call, Effect.succeed(answer), seen))
    return Effect.isEffect(answer) ? checked(call, answer, seen) : answer
  }
}

/** A copy of the port whose effects, and functions that answer effects or streams, look for an open transaction first. */
export const guarded = <S extends object>(name: string, port: S, seen: Array<string> = []): S =>
  Object.fromEntries(
    Object.entries(port).map(([key, member]) => [key, wrap(`${name}.${key}`, member, port, seen)])
  ) as S

/** The guarded port for a scope; closing it dies when the port was ever used inside a transaction. */
export const guardedInScope = <S extends object>(
  name: string,
  port: S
): Effect.Effect<S, never, Scope.Scope> =>
  Effect.gen(function* () {
    const seen: Array<string> = []
    yield* Effect.addFinalizer(() =>
      seen.length === 0
        ? Effect.void
        : Effect.die(new Error(`used inside a transaction: ${[...new Set(seen)].join(", ")}`))
    )
    return guarded(name, port, seen)
  })

/** A layer of a port, guarded. */
export const layerGuarded = <I, S extends object, E, R>(
  port: Context.Key<I, S>,
  layer: Layer.Layer<I, E, R>
): Layer.Layer<I, E, R> =>
  Layer.effect(
    port,
    Effect.flatMap(port, (service) => guardedInScope(port.key, service))
  ).pipe(Layer.provide(layer))
