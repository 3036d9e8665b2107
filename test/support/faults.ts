/**
 * Named points at which a test makes the world fail. A program's doubles call `step` around what they do; the test
 * arms one fault: `failAt` (the step is not done and fails), `crashAfter` (the step is done, then the process is
 * gone: everything after dies), `repeat` (the step is done twice, as when an answer was lost and asked again).
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { PluginDb, PluginTx, type Query, StorageFailure } from "../../src/domain/persistence/PluginDb.ts"

export type FaultKind = "failAt" | "crashAfter" | "repeat"

export interface Fault {
  readonly kind: FaultKind
  readonly step: string
  /** Which occurrence of the step, from 1. */
  readonly occurrence: number
}

/** The process is gone: a defect, because nothing that still runs may handle it. */
export class Crashed extends Data.TaggedError("Crashed")<{ readonly step: string }> {
  override get message(): string {
    return `the process ended after ${this.step}`
  }
}

export interface Faults {
  /** Steps that were reached, in order. */
  readonly reached: ReadonlyArray<string>
  /** Whether the armed fault has struck. */
  readonly struck: () => boolean
  /** Passes the step through, or strikes. `failure` is what the step's port fails with. */
  readonly step: <A, E, R>(
    name: string,
    effect: Effect.Effect<A, E, R>,
    failure: () => E
  ) => Effect.Effect<A, E, R>
}

/** Points with at most one fault armed. Without one they only record which steps a program takes. */
export const makeFaults = (armed: Fault | null = null): Faults => {
  const reached: Array<string> = []
  let crashedAfter: string | null = null
  let struck = false
  const strikes = (name: string, kind: FaultKind): boolean =>
    armed !== null &&
    armed.kind === kind &&
    armed.step === name &&
    reached.filter((step) => step === name).length === armed.occurrence
  const strike = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.suspend(() => {
      struck = true
      return effect
    })
  return {
    reached,
    struck: () => struck,
    step: (name, effect, failure) =>
      Effect.suspend(() => {
        if (crashedAfter !== null) return Effect.die(new Crashed({ step: crashedAfter }))
        reached.push(name)
        if (strikes(name, "failAt")) return strike(Effect.fail(failure()))
        if (strikes(name, "repeat")) return strike(Effect.andThen(effect, effect))
        if (!strikes(name, "crashAfter")) return effect
        return Effect.andThen(
          effect,
          strike(
            Effect.suspend(() => {
              crashedAfter = name
              return Effect.die(new Crashed({ step: name }))
            })
          )
        )
      })
  }
}

const lostStatement = (query: Query) => () =>
  new StorageFailure({ operation: query.operation, fault: "timeout", state: "57014", constraint: null })

/** A root handle every statement of which is a step, named by its operation. Pipelines are one step. */
export const withFaults = (db: PluginDb["Service"], faults: Faults): PluginDb["Service"] => {
  const bound = <A, E, R>(body: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.updateService(body as Effect.Effect<A, E, R | PluginTx>, PluginTx, (tx) =>
      PluginTx.of({
        ...tx,
        query: (query) => faults.step(query.operation, tx.query(query), lostStatement(query))
      })
    ) as Effect.Effect<A, E, R>
  return PluginDb.of({
    schema: db.schema,
    query: (query) => faults.step(query.operation, db.query(query), lostStatement(query)),
    transaction: (operation, body) => db.transaction(operation, bound(body) as typeof body),
    snapshot: (operation, body) => db.snapshot(operation, bound(body) as typeof body),
    pipelined: (operation, queries) =>
      faults.step(operation, db.pipelined(operation, queries), lostStatement({ operation, text: "" }))
  })
}
