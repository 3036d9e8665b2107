/**
 * Carries out one claimed operation: per step the intent is durable, the act runs with no transaction open, and the
 * outcome is durable with the next step's intent, conditional on the claim. A refusal of a step ends the operation
 * as failed; a database that is away only makes it wait; a lost claim makes it stop and change nothing.
 * Who claims is decided elsewhere: dispatcher.ts. Source: SP-OPS-03, SP-OPS-06, SP-TX-08, SP-TX-09.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { storageRetryMillisMax, storageRetryMillisMin } from "../Bounds.ts"
import type { StorageFault } from "../persistence/PluginDb.ts"
import { RuntimeLog } from "../history/RuntimeLog.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { StepObserver } from "../StepObserver.ts"
import { machineGenerationOf, type Operation } from "./Operation.ts"
import { saveOperation } from "./claims.ts"
import type { OperationEvents } from "./OperationEvents.ts"
import {
  ClaimLost,
  type HeldClaim,
  type OperationRows,
  OperationStore,
  type SettleOutcome
} from "./OperationStore.ts"
import {
  type ActionPlan,
  fractionBefore,
  nothingMore,
  OperationPlans,
  type RecordingError,
  resumeIndex,
  type Step,
  type StepOutcome,
  type StepRecorder,
  type StepRefusal
} from "./plan.ts"
import { settleOperation } from "./settlement.ts"

const merged = (operation: Operation, outcome: StepOutcome) => ({
  step: operation.step,
  fraction: operation.fraction,
  message: outcome.message ?? operation.message,
  flags: [...new Set([...operation.flags, ...(outcome.flags ?? [])])],
  ...(outcome.oldRecipe === undefined ? {} : { oldRecipe: outcome.oldRecipe }),
  ...(outcome.newRecipe === undefined ? {} : { newRecipe: outcome.newRecipe })
})

const isRecordingError = (error: StepRefusal): error is RecordingError =>
  ["ClaimLost", "StorageFailure", "CommitUnknown", "TransactionEnded"].includes(error._tag)

/** The receipt as it was last written: what the next write builds upon, and what the operation is settled by. */
interface Written {
  receipt: Operation
}

/** Writes of the steps. Nothing is taken for written before it is durable. */
const makeRecorder = Effect.fnUntraced(function* (written: Written) {
  const context = yield* Effect.context<OperationRows | OperationEvents>()
  const log = yield* RuntimeLog
  const runtimes = yield* RuntimeStore
  const { id, project } = written.receipt
  const save = (outcome: StepOutcome) =>
    Effect.suspend(() => saveOperation(written.receipt, merged(written.receipt, outcome)))
  const recorder: StepRecorder = {
    record: (outcome) =>
      save(outcome).pipe(
        Effect.tap((saved) => Effect.sync(() => void (written.receipt = saved))),
        Effect.provideContext(context)
      ),
    recordMove: (outcome, move) =>
      runtimes
        .transaction("operations.recordMove", (store) =>
          Effect.flatMap(move(store), (isMoved) =>
            isMoved ? Effect.asSome(save(outcome)) : Effect.succeedNone
          )
        )
        .pipe(
          Effect.tap((saved) =>
            Effect.sync(() => void (written.receipt = Option.getOrElse(saved, () => written.receipt)))
          ),
          Effect.map(Option.isSome),
          Effect.provideContext(context)
        ),
    log: Effect.fnUntraced(function* (line: string) {
      const { claimSequence } = written.receipt
      if (yield* log.appendIfHeld(project, { operation: id, lines: [line] }, written.receipt)) return
      return yield* new ClaimLost({ operation: id, project, claimSequence })
    })
  }
  return recorder
})

/** Ends the operation, and with it says what the runtime is now. */
const settle = Effect.fnUntraced(function* (
  plan: ActionPlan | undefined,
  claim: HeldClaim & Pick<Operation, "flags" | "generation" | "newRecipe">,
  outcome: SettleOutcome
) {
  const observed = outcome.state === "succeeded" ? plan?.observedAfter : plan?.observedOnFailure
  const reason = outcome.state === "succeeded" ? null : outcome.text
  yield* observed === undefined || observed === null
    ? settleOperation(claim, outcome)
    : settleOperation(claim, outcome, { generation: machineGenerationOf(claim), observed, reason })
})

const begin = Effect.fnUntraced(function* (
  plan: ActionPlan,
  operation: Operation,
  index: number,
  before: StepOutcome
) {
  const step = plan.steps[index]?.name ?? null
  return yield* saveOperation(operation, {
    ...merged(operation, before),
    step,
    fraction: fractionBefore(plan, index)
  })
})

/**
 * The runtime's row says what is under way together with the first step: a claim that was lost by now changes neither,
 * and no row is left as if somebody was at work. Source: SP-OPS-06.
 */
const beginFirst = Effect.fnUntraced(function* (plan: ActionPlan, claimed: Operation, index: number) {
  const runtimes = yield* RuntimeStore
  const { desired, observedMeanwhile } = plan
  if (desired === null) return yield* begin(plan, claimed, index, nothingMore)
  const generation = machineGenerationOf(claimed)
  const isManual = claimed.initiator !== "system"
  return yield* runtimes.transaction("operations.begin", (store) =>
    Effect.andThen(
      store.begin(claimed.project, { generation, desired, isManual, observedMeanwhile }),
      begin(plan, claimed, index, nothingMore)
    )
  )
})

const runStep = Effect.fn("operations.step")(function* (plan: ActionPlan, step: Step, written: Written) {
  const observer = yield* StepObserver
  yield* Effect.annotateCurrentSpan({
    action: plan.action,
    step: step.name,
    project: written.receipt.project
  })
  yield* observer.before(plan.action, step.name)
  const outcome = yield* step.run(written.receipt, yield* makeRecorder(written))
  yield* observer.after(plan.action, step.name)
  return outcome
})

const runSteps = Effect.fnUntraced(function* (plan: ActionPlan, written: Written) {
  const first = resumeIndex(plan, written.receipt)
  let outcome = nothingMore
  for (let index = first; index < plan.steps.length; index++) {
    written.receipt =
      index === first
        ? yield* beginFirst(plan, written.receipt, index)
        : yield* begin(plan, written.receipt, index, outcome)
    outcome = yield* runStep(plan, plan.steps[index] as Step, written)
  }
  return outcome
})

const failedBy = (code: string, text: string): SettleOutcome => ({
  state: "failed",
  code,
  text
})

/** Name and frames of each defect. Its text is left out, since it may hold anybody's words. Source: FC-21. */
const placesOfDefects = (cause: Cause.Cause<unknown>): ReadonlyArray<string> =>
  cause.reasons.filter(Cause.isDieReason).map(({ defect }) => {
    if (!(defect instanceof Error)) return typeof defect
    const frames = (defect.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line))
    return [defect.name, ...frames].join("\n")
  })

/** Takes back what the plan can, and ends the operation as failed; what could not be taken back stays on its receipt. */
const fail = Effect.fnUntraced(function* (plan: ActionPlan, written: Written, outcome: SettleOutcome) {
  if (plan.takeBack !== undefined) {
    // By a write under the claim: another one may be at work on the very things by now. Source: SP-OPS-06.
    written.receipt = yield* saveOperation(written.receipt, merged(written.receipt, nothingMore))
    const taken = yield* Effect.exit(plan.takeBack(written.receipt, yield* makeRecorder(written)))
    if (Exit.isSuccess(taken) && taken.value) {
      const { message } = written.receipt
      const first = plan.steps[0].name
      written.receipt = yield* saveOperation(written.receipt, {
        step: first,
        fraction: 0,
        message,
        flags: []
      })
    } else if (Exit.isFailure(taken)) {
      if (Cause.hasInterrupts(taken.cause)) return yield* Effect.interrupt
      const error = Option.getOrUndefined(Cause.findErrorOption(taken.cause))
      if (error !== undefined && isRecordingError(error)) return yield* Effect.fail(error)
      yield* Effect.logWarning(
        `what operation ${written.receipt.id} has made is not taken back: ${error?.message ?? "a defect"}`
      )
    }
  }
  yield* settle(plan, written.receipt, outcome)
})

const attempt = Effect.fnUntraced(function* (plan: ActionPlan, claimed: Operation) {
  const written: Written = { receipt: claimed }
  const exit = yield* Effect.exit(runSteps(plan, written))
  if (Exit.isSuccess(exit)) {
    if (plan.settledByLastStep) return
    const result = exit.value.result
    yield* settle(plan, written.receipt, { state: "succeeded", ...(result === undefined ? {} : { result }) })
    return
  }
  if (Cause.hasInterrupts(exit.cause)) return yield* Effect.interrupt
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (error !== undefined && isRecordingError(error)) return yield* Effect.fail(error)
  if (error !== undefined) {
    yield* fail(plan, written, failedBy(error.code, error.message))
    return
  }
  yield* Effect.logError(`operation ${claimed.id} died in its step`, ...placesOfDefects(exit.cause))
  yield* fail(
    plan,
    written,
    failedBy("internal", "a step of the operation died: the daemon's log has the defect")
  )
})

/** The row as it is now, if this claim still holds it. */
const stillHeld = Effect.fnUntraced(function* (claimed: Operation) {
  const found = Option.getOrUndefined(yield* (yield* OperationStore).byId(claimed.id))
  const same = found?.claimSequence === claimed.claimSequence && found.claimedBy === claimed.claimedBy
  return found !== undefined && same && found.state === "claimed" ? found : undefined
})

/** Waits until the database answers again; the row if it is still this claim's, else none. */
const awaitDatabase = Effect.fnUntraced(function* (claimed: Operation, tries: number) {
  let waitMillis = Math.min(storageRetryMillisMin * 2 ** tries, storageRetryMillisMax)
  for (;;) {
    yield* Effect.sleep(waitMillis)
    const reread = yield* Effect.exit(stillHeld(claimed))
    if (Exit.isSuccess(reread)) return reread.value
    waitMillis = Math.min(waitMillis * 2, storageRetryMillisMax)
  }
})

/** Faults that the same statement meets again however long one waits: the operation ends with them. */
const neverHeals: ReadonlyArray<StorageFault> = ["constraint", "unique", "query", "refused"]

/** One try: answers the row to go on with when the database was away meanwhile. */
const attemptOnce = Effect.fnUntraced(function* (current: Operation, tries: number) {
  const plan = (yield* OperationPlans).planOf(current.action)
  const work: Effect.Effect<void, RecordingError, Effect.Services<ReturnType<typeof attempt>>> = plan ===
  undefined
    ? Effect.asVoid(
        settle(
          plan,
          current,
          failedBy("action_not_supported", `this daemon cannot carry out ${current.action}`)
        )
      )
    : attempt(plan, current)
  const ended = yield* Effect.result(work)
  if (Result.isSuccess(ended)) return undefined
  const failure = ended.failure
  yield* Effect.logWarning(`operation ${current.id} was interrupted: ${failure.message}`)
  if (failure._tag === "ClaimLost") return undefined
  if (failure._tag === "StorageFailure" && neverHeals.includes(failure.fault)) {
    const ending = settle(plan, current, failedBy(failure.code, failure.message))
    if (Result.isSuccess(yield* Effect.result(ending))) return undefined
  }
  return yield* awaitDatabase(current, tries)
})

/**
 * Carries out a claimed operation to its end and answers once its outcome is durable or its claim is lost. While the
 * database is away it tries again from the durable state, between `storageRetryMillisMin` and `storageRetryMillisMax`.
 * Interrupting it leaves the claim as it is.
 */
export const executeClaimed = Effect.fn("operations.execute")(function* (claimed: Operation) {
  let current: Operation | undefined = claimed
  for (let tries = 0; current !== undefined; tries++) current = yield* attemptOnce(current, tries)
})
