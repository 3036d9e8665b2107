/** Models of runtimes and operations from a partial description. */
import {
  AccountId,
  Generation,
  NodeId,
  OperationId,
  ProjectId,
  RequestKey,
  SandboxId
} from "../../../src/domain/Identity.ts"
import { Operation, type OperationRequest } from "../../../src/domain/operations/Operation.ts"
import type { ActionPlan } from "../../../src/domain/operations/plan.ts"
import { MachineRecipe, Runtime } from "../../../src/domain/runtimes/Runtime.ts"

export const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`
export const project = ProjectId.make(7)
export const node = NodeId.make(uuid(10))
export const generation = (n: number): Generation => Generation.make(n)

export const recipe = (n = 1, sandbox = 100 + n): MachineRecipe =>
  new MachineRecipe({
    supervisor: "auto",
    image: "host",
    cpuMillis: 1000,
    memoryBytes: 2 ** 30,
    processesMax: 512,
    node,
    sandbox: SandboxId.make(`sb-${uuid(sandbox)}`),
    generation: generation(n),
    disks: ["/srv/disks/a"]
  })

/** What the plan of a start says of the runtime, around the steps of a test. */
export const startPlan = (steps: ActionPlan["steps"], change: Partial<ActionPlan> = {}): ActionPlan => ({
  action: "start",
  desired: "running",
  observedMeanwhile: "starting",
  observedAfter: "running",
  observedOnFailure: "failed",
  settledByLastStep: false,
  steps,
  ...change
})

export const runtime = (given: Partial<Runtime> = {}): Runtime =>
  new Runtime({
    project,
    generation: generation(1),
    sandbox: recipe().sandbox,
    desired: "running",
    observed: "running",
    observedReason: null,
    recipe: recipe(),
    refreshEpoch: 0,
    sampleStartedAtMillis: null,
    ...given
  })

export const operation = (given: Partial<Operation> = {}): Operation => {
  const state = given.state ?? "queued"
  return new Operation({
    rowId: 1,
    id: OperationId.make(uuid(1)),
    project,
    account: AccountId.make(uuid(20)),
    initiator: "user",
    action: "start",
    requestKey: RequestKey.make("first"),
    generation: generation(1),
    parameters: {},
    state,
    claimedBy: state === "claimed" ? "somebody" : null,
    claimSequence: 0,
    step: null,
    fraction: 0,
    message: null,
    flags: [],
    oldRecipe: null,
    newRecipe: null,
    owed: [],
    absences: [],
    result: null,
    errorCode: null,
    errorText: null,
    supersededBy: state === "superseded" ? "system" : null,
    supersedeAskedBy: null,
    createdAtMillis: 0,
    claimedAtMillis: state === "claimed" ? 0 : null,
    settledAtMillis: state === "queued" || state === "claimed" ? null : 1,
    ...given
  })
}

export const request = (given: Partial<OperationRequest> = {}): OperationRequest => ({
  project,
  action: "start",
  requestKey: RequestKey.make("first"),
  expectedGeneration: null,
  parameters: {},
  ...given
})
