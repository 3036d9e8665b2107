/**
 * What an action is made of: a declared list of steps, each with a name, a weight for the progress bar and a
 * forward act that may be repeated. A step that was under way when the daemon died is run again from its start, so
 * every act is idempotent and reads how far it came from the receipt's flags, never from the clock.
 * Source: SP-OPS-03, SP figures (steps with weights).
 */
import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { CommitUnknown, StorageFailure, TransactionEnded } from "../persistence/PluginDb.ts"
import type { MachineRecipe, RuntimeDesired, RuntimeObserved } from "../runtimes/Runtime.ts"
import type { BoundRuntimeStore } from "../runtimes/RuntimeStore.ts"
import type { Operation, OperationAction, OperationFlag, OperationResult } from "./Operation.ts"
import type { ClaimLost } from "./OperationStore.ts"

/** What a step leaves on the receipt. Flags are added; only taking everything back clears them. */
export interface StepOutcome {
  readonly flags?: ReadonlyArray<OperationFlag>
  readonly oldRecipe?: MachineRecipe
  readonly newRecipe?: MachineRecipe
  readonly message?: string
  readonly result?: OperationResult
}

/** Why a step did not get through: a stable code and one sentence of ours, both written to the receipt. */
export interface StepRefusal {
  readonly _tag: string
  readonly code: string
  readonly message: string
}

/** The receipt could not be written: the claim is lost, or the database is away. It is not the step's outcome. */
export type RecordingError = ClaimLost | StorageFailure | CommitUnknown | TransactionEnded

/** What a step may write while it runs. Each write is durable when it returns, and refused once the claim is lost. */
export interface StepRecorder {
  /** Adds to the receipt before the act that it announces: the intent is durable before the effect. */
  readonly record: (outcome: StepOutcome) => Effect.Effect<Operation, RecordingError>
  /**
   * Moves the runtime's row and adds to the receipt in one transaction. False, and nothing written, when the row was
   * not as the move needs it.
   */
  readonly recordMove: (
    outcome: StepOutcome,
    move: (store: BoundRuntimeStore) => Effect.Effect<boolean, StorageFailure | TransactionEnded>
  ) => Effect.Effect<boolean, RecordingError>
  readonly log: (line: string) => Effect.Effect<void, RecordingError>
}

export interface Step {
  readonly name: string
  readonly weight: number
  readonly run: (
    operation: Operation,
    recorder: StepRecorder
  ) => Effect.Effect<StepOutcome, StepRefusal | RecordingError>
}

/** The forward act of a step that still needs services: idempotent, and run with no transaction open. */
export type Act<R> = (
  operation: Operation,
  recorder: StepRecorder
) => Effect.Effect<StepOutcome, StepRefusal | RecordingError, R>

/** Steps that still need services, in order. */
export type UnboundSteps<R> = readonly [UnboundStep<R>, ...ReadonlyArray<UnboundStep<R>>]
type UnboundStep<R> = readonly [name: string, weight: number, act: Act<R>]

/** The outcome of a step that adds nothing to the receipt. */
export const nothingMore: StepOutcome = {}

/**
 * What the runtime's row says while the action runs, when it succeeded, and when it failed. Null: as it was; where nothing
 * is desired, nothing is written while it runs.
 */
export interface ActionPlan {
  readonly action: OperationAction
  readonly desired: RuntimeDesired | null
  readonly observedMeanwhile: RuntimeObserved | null
  readonly observedAfter: RuntimeObserved | null
  readonly observedOnFailure: RuntimeObserved | null
  readonly steps: readonly [Step, ...ReadonlyArray<Step>]
  /** The last step settles the operation itself, in the transaction that clears the records. Source: SP-DEL-10. */
  readonly settledByLastStep: boolean
  /** None: what a failed operation has made stays, and its request asked again goes on from there. */
  readonly takeBack?: TakeBack
}

/**
 * Takes back what a failed operation has made, before it is settled; idempotent, and never run for a lost claim or an
 * interruption. True: nothing is left of it, so that the same request begins anew. False: there is no way back.
 */
export type TakeBack = (
  operation: Operation,
  recorder: StepRecorder
) => Effect.Effect<boolean, StepRefusal | RecordingError>

/** The same, while it still needs services. */
export type UnboundTakeBack<R> = (
  ...given: Parameters<TakeBack>
) => Effect.Effect<boolean, StepRefusal | RecordingError, R>

/** Steps with their services given, so that a plan needs nothing any more. */
export const bindSteps = <R>(context: Context.Context<R>, steps: UnboundSteps<R>): ActionPlan["steps"] =>
  Arr.map(steps, ([name, weight, act]): Step => ({
    name,
    weight,
    run: (operation, recorder) => Effect.provideContext(act(operation, recorder), context)
  }))

export const bindTakeBack =
  <R>(context: Context.Context<R>, takeBack: UnboundTakeBack<R>): TakeBack =>
  (operation, recorder) =>
    Effect.provideContext(takeBack(operation, recorder), context)

/** The plans of the actions that this daemon can carry out. Joined in layers. */
export class OperationPlans extends Context.Service<
  OperationPlans,
  { readonly planOf: (action: OperationAction) => ActionPlan | undefined }
>()("holdfast/domain/operations/plan/OperationPlans") {}

/** Share of the plan that is done when the step at `index` begins, from 0 to 1. */
export const fractionBefore = (plan: ActionPlan, index: number): number => {
  const whole = plan.steps.reduce((sum, step) => sum + step.weight, 0)
  return plan.steps.slice(0, index).reduce((sum, step) => sum + step.weight, 0) / whole
}

/** Where a claimed operation goes on: at the step it was in when it was last written, or at the first. */
export const resumeIndex = (plan: ActionPlan, operation: Pick<Operation, "step">): number =>
  Math.max(
    0,
    plan.steps.findIndex((step) => step.name === operation.step)
  )
