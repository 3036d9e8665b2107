/**
 * Calls of one kind that go together: while a statement is under way, those that come meanwhile wait for the next one and
 * share it. Nobody waits for company, and a call is carried out whoever hangs up. Each caller has an answer of his own.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { StorageFailure } from "../../domain/persistence/PluginDb.ts"

export interface Grouping<In, Out> {
  /** Calls that share one statement at most. */
  readonly max: number
  /** Statements under way at a time, one unless told: more of them where each call costs the server much. */
  readonly atOnce?: number
  /** Carries the calls out; answers one for each, in their order. */
  readonly run: (calls: ReadonlyArray<In>) => Effect.Effect<ReadonlyArray<Out>, StorageFailure>
}

interface Waiting<In, Out> {
  readonly given: In
  readonly answer: Deferred.Deferred<Out, StorageFailure>
}

/** A fault that one call of several may have brought about for all of them: then each goes alone. */
const mayBeOfOneCall = ({ fault }: StorageFailure): boolean => fault === "constraint" || fault === "query"

/** The call for one, which goes together with what else is asked for meanwhile. */
export const groupedCalls = <In, Out>({
  atOnce = 1,
  max,
  run
}: Grouping<In, Out>): ((given: In) => Effect.Effect<Out, StorageFailure>) => {
  const waiting: Array<Waiting<In, Out>> = []
  let underWay = 0

  const carryOut = (group: ReadonlyArray<Waiting<In, Out>>): Effect.Effect<void> =>
    run(group.map(({ given }) => given)).pipe(
      Effect.matchCauseEffect({
        onSuccess: (answers) =>
          Effect.forEach(group, ({ answer }, at) => Deferred.succeed(answer, answers[at]!), {
            discard: true
          }),
        onFailure: (cause) =>
          group.length > 1 &&
          cause.reasons.some((reason) => reason._tag === "Fail" && mayBeOfOneCall(reason.error))
            ? Effect.forEach(group, (one) => carryOut([one]), { discard: true })
            : Effect.forEach(group, ({ answer }) => Deferred.failCause(answer, cause), { discard: true })
      })
    )

  /** Goes on until nobody waits; the calls of one turn of the scheduler come together. */
  const drain = Effect.gen(function* () {
    yield* Effect.yieldNow
    while (waiting.length > 0) yield* carryOut(waiting.splice(0, max))
    underWay -= 1
  })

  return Effect.fnUntraced(function* (given: In) {
    const answer = yield* Deferred.make<Out, StorageFailure>()
    waiting.push({ given, answer })
    if (underWay < atOnce) {
      underWay += 1
      yield* Effect.forkDetach(Effect.uninterruptible(drain))
    }
    return yield* Deferred.await(answer)
  })
}
