/**
 * Why an operation is what it is: the chain from the request to the end, told from its receipt and the lines that it
 * logged. Each step says when it was, who wanted it, and what is known of it; what is not known is said to be unknown,
 * never guessed. Nothing of a claimant but how often it was claimed is told, nothing of a machine but its name. Pure.
 * Source: BX-02, FC-06, FC-22.
 */
import type { Operation } from "./Operation.ts"
import { machineOf } from "./Operation.ts"
import type { Waiting } from "./waiting.ts"

/** The steps in the order of the chain. `step`, `machine` and `absence` come as often as there are any. */
export const operationWhySteps = [
  "request",
  "admission",
  "waiting",
  "claim",
  "step",
  "machine",
  "absence",
  "end"
] as const

export interface OperationWhyStep {
  readonly step: (typeof operationWhySteps)[number]
  /** By the database's clock; null: it has not happened, or the time is not kept. */
  readonly atMillis: number | null
  /** Who wanted it: an account's id, `system`, or the runtime's own programs; null: not known, or nobody. */
  readonly actor: string | null
  /** One sentence. */
  readonly told: string
  readonly facts: Readonly<Record<string, string | number>>
}

/** A line that the operation logged; the newest of a Project are kept. */
export interface LoggedLine {
  readonly atMillis: number
  readonly line: string
}

export interface OperationWhyFacts {
  readonly operation: Operation
  readonly waiting: Waiting | null
  readonly lines: ReadonlyArray<LoggedLine>
}

/** Who carries out what others have asked for. */
const theRuntime = "runtime"

const step = (
  name: OperationWhyStep["step"],
  told: string,
  rest: Partial<Pick<OperationWhyStep, "atMillis" | "actor" | "facts">> = {}
): OperationWhyStep => ({
  step: name,
  atMillis: rest.atMillis ?? null,
  actor: rest.actor ?? null,
  told,
  facts: rest.facts ?? {}
})

const askerOf = ({ account, initiator }: Operation): string => account ?? initiator

const requestStep = (operation: Operation): OperationWhyStep => {
  const { action, createdAtMillis, initiator, project, requestKey } = operation
  return step(
    "request",
    `${action} of project ${project}, asked for by ${initiator} under the key ${requestKey}`,
    {
      atMillis: createdAtMillis,
      actor: askerOf(operation),
      facts: { action, project, initiator, key: requestKey }
    }
  )
}

const admissionStep = ({ createdAtMillis, generation }: Operation): OperationWhyStep =>
  step("admission", `recorded durably for generation ${generation} before anything was done`, {
    atMillis: createdAtMillis,
    actor: theRuntime,
    facts: { generation }
  })

const claimStep = ({ claimedAtMillis, claimSequence, state }: Operation): OperationWhyStep => {
  if (claimSequence === 0) return step("claim", "no daemon has claimed it")
  const times = claimSequence === 1 ? "once" : `${claimSequence} times`
  const now = state === "claimed" ? "and is held" : "and is not held any more"
  return step("claim", `claimed ${times}, ${now}`, {
    atMillis: claimedAtMillis,
    actor: theRuntime,
    facts: { claims: claimSequence }
  })
}

const workSteps = ({ operation, lines }: OperationWhyFacts): ReadonlyArray<OperationWhyStep> => {
  const { flags, fraction, message, step: reached } = operation
  const logged = lines.map(({ atMillis, line }) => step("step", line, { atMillis, actor: theRuntime }))
  if (reached === null) return [...logged, step("step", "it has not begun its first step")]
  const marks = flags.length === 0 ? "" : `, with the marks ${flags.join(", ")}`
  const words = message === null ? "" : `: ${message}`
  return [
    ...logged,
    step("step", `came to the step ${reached}, ${Math.floor(fraction * 100)}% of the work${marks}${words}`, {
      actor: theRuntime,
      facts: { step: reached, fraction }
    })
  ]
}

const machineSteps = ({ newRecipe, oldRecipe, owed }: Operation): ReadonlyArray<OperationWhyStep> =>
  [
    { name: "its old machine", recipe: oldRecipe },
    { name: "its new machine", recipe: newRecipe }
  ].flatMap(({ name, recipe }) => {
    if (recipe === null) return []
    const isOwed = owed.includes(machineOf(recipe))
    const state = isOwed ? "owed: it is not proved absent" : "not owed by this receipt"
    return [
      step("machine", `${name} ${recipe.sandbox}, generation ${recipe.generation}, is ${state}`, {
        actor: theRuntime,
        facts: { sandbox: recipe.sandbox, generation: recipe.generation, node: recipe.node }
      })
    ]
  })

/** What took machines off the receipt, and what a removal proved, the oldest first. */
const absenceSteps = ({ absences, result }: Operation): ReadonlyArray<OperationWhyStep> =>
  [...absences.toReversed(), ...(result?.proofs ?? []).filter((proof) => !absences.includes(proof))].map(
    (proof) => step("absence", proof, { actor: theRuntime })
  )

const openEnd = ({ supersedeAskedBy }: Operation): OperationWhyStep =>
  supersedeAskedBy === null
    ? step("end", "it has not ended")
    : step(
        "end",
        "it has not ended: somebody has asked to take it back, and its claim is not stolen while its node is not seen; once the claim comes back, nobody goes on with it",
        { actor: supersedeAskedBy }
      )

const endStep = (operation: Operation): OperationWhyStep => {
  const { errorCode, errorText, settledAtMillis, state, supersededBy } = operation
  const why = errorCode === null ? "" : ` (${errorCode}): ${errorText ?? "no sentence is kept"}`
  switch (state) {
    case "queued":
    case "claimed":
      return openEnd(operation)
    case "superseded":
      return step("end", `superseded${why}`, {
        atMillis: settledAtMillis,
        actor: supersededBy,
        facts: errorCode === null ? {} : { code: errorCode }
      })
    default:
      return step("end", `${state}${why}`, {
        atMillis: settledAtMillis,
        actor: theRuntime,
        facts: errorCode === null ? {} : { code: errorCode }
      })
  }
}

/** The whole chain, from the request to the end. */
export const explainOperation = (facts: OperationWhyFacts): ReadonlyArray<OperationWhyStep> => {
  const { operation, waiting } = facts
  return [
    requestStep(operation),
    admissionStep(operation),
    ...(waiting === null
      ? []
      : [
          step("waiting", `waits for ${waiting.for}`, {
            atMillis: waiting.sinceMillis,
            facts: { kind: waiting.kind }
          })
        ]),
    claimStep(operation),
    ...workSteps(facts),
    ...machineSteps(operation),
    ...absenceSteps(operation),
    endStep(operation)
  ]
}
