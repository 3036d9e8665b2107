/**
 * Runs a program once without a fault to learn its steps, then once for each step and kind of fault, each time from
 * a fresh start, and checks what is left. Dies when there was no step, or when a fault never struck.
 */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { type Fault, type FaultKind, type Faults, makeFaults } from "./faults.ts"

export interface EveryStep<A, E, R, E2, R2> {
  readonly kinds: ReadonlyArray<FaultKind>
  /** Makes its own fixture and answers how the program ended together with what the check needs. */
  readonly program: (faults: Faults) => Effect.Effect<A, E, R>
  /** Looks at one run. It is given the fault, or null for the run without one. */
  readonly check: (run: {
    readonly fault: Fault | null
    readonly exit: Exit.Exit<A, E>
  }) => Effect.Effect<void, E2, R2>
}

const faultsOf = (steps: ReadonlyArray<string>, kinds: ReadonlyArray<FaultKind>): ReadonlyArray<Fault> =>
  steps.flatMap((step, index) =>
    kinds.map((kind) => ({
      kind,
      step,
      occurrence: steps.slice(0, index + 1).filter((each) => each === step).length
    }))
  )

/** Answers the steps that the program takes, having checked a run with a fault at each of them. */
export const everyStep = Effect.fnUntraced(function* <A, E, R, E2, R2>(options: EveryStep<A, E, R, E2, R2>) {
  const unharmed = makeFaults()
  yield* options.check({ fault: null, exit: yield* Effect.exit(options.program(unharmed)) })
  const steps = [...unharmed.reached]
  if (steps.length === 0)
    return yield* Effect.die(new Error("the program took no step at which it could fail"))
  for (const fault of faultsOf(steps, options.kinds)) {
    const faults = makeFaults(fault)
    const exit = yield* Effect.exit(options.program(faults))
    if (!faults.struck()) {
      return yield* Effect.die(new Error(`${fault.kind} never struck at ${fault.step} (${fault.occurrence})`))
    }
    yield* options.check({ fault, exit })
  }
  return steps
})
