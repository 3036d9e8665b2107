/** Rows of an operation and a runtime, with a canary in everything of the operation that must not leave the daemon. */
import * as Schema from "effect/Schema"
import { Operation } from "../../../src/domain/operations/Operation.ts"
import { Runtime } from "../../../src/domain/runtimes/Runtime.ts"

export const canary = "canary-7f3a"

const uuid = (last: number): string => `00000000-0000-4000-8000-${String(last).padStart(12, "0")}`

const recipe = {
  supervisor: "bubblewrap",
  image: `/images/${canary}`,
  cpuMillis: 1_000,
  memoryBytes: 1024 ** 3,
  processesMax: 512,
  node: uuid(3),
  sandbox: `sb-${uuid(4)}`,
  generation: 1,
  disks: [`/disks/${canary}`]
}

const decode = Schema.decodeUnknownSync(Operation)

const decodeRuntime = Schema.decodeUnknownSync(Runtime)

/** The running runtime of Project 7, whose machine was asked for with any supervisor, on that node. */
export const storedRuntime = (node: string): Runtime =>
  decodeRuntime({
    project: 7,
    generation: 1,
    sandbox: recipe.sandbox,
    desired: "running",
    observed: "running",
    observedReason: null,
    recipe: { ...recipe, image: "host", node, supervisor: "auto" },
    refreshEpoch: 0,
    sampleStartedAtMillis: null
  })

/** A queued provision of Project 7, unless told otherwise. */
export const storedOperation = (fields: Partial<typeof Operation.Encoded> = {}): Operation =>
  decode({
    rowId: 1,
    id: uuid(10),
    project: 7,
    account: uuid(1),
    initiator: "user",
    action: "provision",
    requestKey: "r-1",
    generation: 1,
    parameters: { image: `/images/${canary}` },
    state: "queued",
    claimedBy: `daemon/${canary}`,
    claimSequence: 0,
    step: null,
    fraction: 0,
    message: null,
    flags: [],
    oldRecipe: recipe,
    newRecipe: recipe,
    owed: [`sb-${canary}/1`],
    absences: ["its former guest is gone"],
    result: null,
    errorCode: null,
    errorText: null,
    supersededBy: null,
    supersedeAskedBy: null,
    createdAtMillis: 1,
    claimedAtMillis: null,
    settledAtMillis: null,
    ...fields
  })
