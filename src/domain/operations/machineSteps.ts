/**
 * The plans of provision, start and stop on a real machine. Each step converges: run again after a crash it finds
 * what is there and makes only what is missing, so that no second guest can come of it. Source: SP-OPS-03, SP figures.
 */
import * as Arr from "effect/Array"
import type * as Context from "effect/Context"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import {
  quiesceMillisMax,
  quiescePollMillis,
  guestReadyMillisMax,
  guestReadyPollMillis,
  guestStopGraceMillis,
  runtimeCpuMillisDefault,
  runtimeMemoryMebibytesDefault,
  runtimeProcessesDefault,
  sandboxLifeSecondsMax
} from "../Bounds.ts"
import { proveAbsence } from "../guests/absence.ts"
import { GuestCommand } from "../guests/GuestSpec.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { Identifiers } from "../Identifiers.ts"
import { type ProjectId, SandboxId } from "../Identity.ts"
import { cancelExecutionsOf } from "../leases/cancellation.ts"
import type { HeldLeases } from "../leases/HeldLeases.ts"
import { LeaseStore } from "../leases/LeaseStore.ts"
import type { RepositoryClaims } from "../leases/RepositoryClaims.ts"
import { finalizeProvenGone } from "../leases/settlement.ts"
import type { RunState } from "../reclamation/RunState.ts"
import { createSandbox, specOf } from "../registry/creation.ts"
import { startSandbox, stopSandbox } from "../registry/lifecycle.ts"
import { Registry } from "../registry/Registry.ts"
import type { SandboxRequest } from "../registry/sandboxRequest.ts"
import { Disks } from "../runtimes/Disks.ts"
import { MachineRecipe } from "../runtimes/Runtime.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import type { Operation } from "./Operation.ts"
import { OperationRefused } from "./OperationRefused.ts"
import type { ActionPlan, Step, StepOutcome, StepRecorder, StepRefusal, RecordingError } from "./plan.ts"

/** What the machine steps need; given once, when the plans are made. */
export type MachineServices =
  | GuestSupervisor
  | Registry
  | RunState
  | Disks
  | Identifiers
  | RuntimeStore
  | LeaseStore
  | HeldLeases
  | RepositoryClaims

type Act = (
  operation: Operation,
  recorder: StepRecorder
) => Effect.Effect<StepOutcome, StepRefusal | RecordingError, MachineServices>

const done: StepOutcome = {}

/** The recipe of this operation's machine: its own new one, else the runtime's. */
const recipeOf = Effect.fnUntraced(function* (operation: Operation) {
  if (operation.newRecipe !== null) return operation.newRecipe
  const runtime = yield* (yield* RuntimeStore).runtime(operation.project)
  const recipe = runtime._tag === "Some" ? runtime.value.recipe : null
  if (recipe !== null) return recipe
  return yield* new OperationRefused({
    project: operation.project,
    code: "runtime_not_provisioned",
    why: "it has no machine: provision it first"
  })
})

/**
 * A machine of another node is not made, started or ended here: two nodes would carry one runtime. Operations are
 * claimed by the node that carries their machine; one that comes here all the same is refused. Source: SP-OPS-03, FC-13.
 */
export const requireCarriedHere = Effect.fnUntraced(function* (operation: Operation, recipe: MachineRecipe) {
  const { node } = yield* Registry
  if (recipe.node === node) return
  return yield* new OperationRefused({
    project: operation.project,
    code: "sandbox_of_another_node",
    why: `${recipe.sandbox} is carried by node ${recipe.node}: only that node can work on it and prove its absence`
  })
})

/** What the node's registry is asked for, so that the recipe's machine is carried. */
const requestOf = (project: ProjectId, recipe: MachineRecipe): SandboxRequest => ({
  id: recipe.sandbox,
  generation: recipe.generation,
  image: recipe.image,
  argv: [],
  environment: {},
  metadata: { project: String(project) },
  cpuMillis: recipe.cpuMillis,
  memoryBytes: recipe.memoryBytes,
  processesMax: recipe.processesMax,
  disk: recipe.disks[0] ?? null,
  lifeSeconds: sandboxLifeSecondsMax
})

/** A fresh recipe for what `provision` was asked. Its ids are new, so nothing that ever was can be meant by it. */
const makeRecipe = Effect.fnUntraced(function* (operation: Operation) {
  const { uuid } = yield* Identifiers
  const registry = yield* Registry
  const disks = yield* Disks
  const asked = operation.parameters
  return new MachineRecipe({
    supervisor: Schema.decodeUnknownSync(MachineRecipe.fields.supervisor)(asked.supervisor ?? "auto"),
    image: asked.image ?? "host",
    cpuMillis: asked.cpuMillis ?? runtimeCpuMillisDefault,
    memoryBytes: (asked.memoryMebibytes ?? runtimeMemoryMebibytesDefault) * 1024 ** 2,
    processesMax: asked.processesMax ?? runtimeProcessesDefault,
    node: registry.node,
    sandbox: SandboxId.make(`sb-${yield* uuid}`),
    generation: operation.generation,
    disks: [disks.pathOf(operation.project, yield* uuid)]
  })
})

/** The recipe is durable, marked as being made, before anything of it exists. Source: BX-01. */
const image: Act = Effect.fnUntraced(function* (operation, recorder) {
  const supervisor = yield* GuestSupervisor
  const fresh = operation.action === "provision" && operation.newRecipe === null
  const recipe = fresh ? yield* makeRecipe(operation) : yield* recipeOf(operation)
  yield* requireCarriedHere(operation, recipe)
  const { supervisor: kind } = supervisor.capabilities
  if (recipe.supervisor !== "auto" && recipe.supervisor !== kind) {
    return yield* new OperationRefused({
      project: operation.project,
      code: "supervisor_unavailable",
      why: `it asks for ${recipe.supervisor}, and this daemon carries guests by ${kind}: start the daemon with that supervisor or provision with auto`
    })
  }
  // Judged before there is a run, and before its disk is made.
  const launch = { ...requestOf(operation.project, recipe), runId: "", attemptId: "", disk: null }
  yield* supervisor.validate(specOf(launch))
  if (!fresh) return done
  yield* recorder.record({ newRecipe: recipe, flags: ["creating"] })
  return { newRecipe: recipe }
})

const storage: Act = Effect.fnUntraced(function* (operation) {
  const disks = yield* Disks
  const recipe = yield* recipeOf(operation)
  yield* Effect.forEach(recipe.disks, disks.ensure, { discard: true })
  return done
})

/** The node's registry owes the machine, then the runtime's row names it. */
const guest: Act = Effect.fnUntraced(function* (operation) {
  const runtimes = yield* RuntimeStore
  const recipe = yield* recipeOf(operation)
  yield* createSandbox(requestOf(operation.project, recipe))
  const saved = yield* runtimes.saveRecipe(operation.project, { generation: operation.generation, recipe })
  if (saved) return done
  return yield* new OperationRefused({
    project: operation.project,
    code: "generation_conflict",
    why: "its machine was replaced meanwhile"
  })
})

const boot: Act = Effect.fnUntraced(function* (operation, recorder) {
  const recipe = yield* recipeOf(operation)
  yield* startSandbox(recipe.sandbox)
  yield* recorder.log(`${recipe.sandbox} is up`)
  return done
})

/** Asks until the guest's agent answers, or the time for it is over. Source: SP figures (boot ready 30 s, poll 100 ms). */
const ready: Act = Effect.fnUntraced(function* (operation) {
  const supervisor = yield* GuestSupervisor
  const recipe = yield* recipeOf(operation)
  yield* supervisor.ping(recipe.sandbox).pipe(
    Effect.retry({
      schedule: Schedule.spaced(guestReadyPollMillis),
      times: Math.ceil(guestReadyMillisMax / guestReadyPollMillis)
    })
  )
  return done
})

/** The first command in the guest: its workspace takes writes. What a later one needs is not promised before. */
const initialise: Act = Effect.fnUntraced(function* (operation) {
  const supervisor = yield* GuestSupervisor
  const recipe = yield* recipeOf(operation)
  const probe = new GuestCommand({
    argv: ["/bin/sh", "-c", "test -w ."],
    environment: {},
    workingDirectory: "/workspace",
    standardInput: null,
    timeoutMillis: guestReadyMillisMax
  })
  const last = yield* Stream.runLast(supervisor.execute(recipe.sandbox, probe))
  if (last._tag === "Some" && last.value._tag === "Exited" && last.value.exitCode === 0) return done
  return yield* new OperationRefused({
    project: operation.project,
    code: "workspace_not_writable",
    why: "its guest cannot write to /workspace"
  })
})

/** Asks every execution of the Project to end, and waits for it up to `quiesceMillisMax`; the stop ends the rest. */
export const quiesce: Act = Effect.fnUntraced(function* (operation) {
  const leases = yield* LeaseStore
  yield* cancelExecutionsOf(operation.project)
  yield* Effect.repeat(leases.ofProject(operation.project), {
    until: (left) => left.length === 0,
    schedule: Schedule.spaced(quiescePollMillis),
    times: Math.ceil(quiesceMillisMax / quiescePollMillis)
  })
  return done
})

const stop: Act = Effect.fnUntraced(function* (operation, recorder) {
  const recipe = yield* recipeOf(operation)
  yield* requireCarriedHere(operation, recipe)
  const observation = yield* stopSandbox(recipe.sandbox, { graceMillis: guestStopGraceMillis })
  const observedAtMillis = yield* Clock.currentTimeMillis
  const { generation, sandbox } = recipe
  // Executions that are not known to have ended are known to be gone with their guest. Source: SP-LEASE-06.
  yield* finalizeProvenGone(
    yield* Effect.fromResult(proveAbsence(sandbox, observation, { observedAtMillis, generation }))
  )
  yield* recorder.log(`${recipe.sandbox} is stopped`)
  return { flags: ["stopped"] }
})

type Unbound<R> = readonly [
  name: string,
  weight: number,
  act: (
    operation: Operation,
    recorder: StepRecorder
  ) => Effect.Effect<StepOutcome, StepRefusal | RecordingError, R>
]

/** Steps with their services given, so that a plan needs nothing any more. */
export const bindSteps = <R>(
  context: Context.Context<R>,
  steps: readonly [Unbound<R>, ...ReadonlyArray<Unbound<R>>]
): ActionPlan["steps"] =>
  Arr.map(steps, ([name, weight, act]): Step => ({
    name,
    weight,
    run: (operation, recorder) => Effect.provideContext(act(operation, recorder), context)
  }))

/** The plans of provision, start and stop, over the services that are in context now. */
export const machinePlans: Effect.Effect<ReadonlyArray<ActionPlan>, never, MachineServices> = Effect.gen(
  function* () {
    const context = yield* Effect.context<MachineServices>()
    const up = bindSteps(context, [
      ["image", 10, image],
      ["storage", 1, storage],
      ["guest", 2, guest],
      ["boot", 2, boot],
      ["ready", 2, ready],
      ["initialise", 1, initialise]
    ])
    const starting = {
      desired: "running",
      observedMeanwhile: "starting",
      observedAfter: "running",
      observedOnFailure: "failed",
      steps: up,
      settledByLastStep: false
    } as const
    return [
      { action: "provision", ...starting },
      { action: "start", ...starting },
      {
        action: "stop",
        desired: "stopped",
        observedMeanwhile: null,
        observedAfter: "stopped",
        observedOnFailure: null,
        steps: bindSteps(context, [
          ["quiesce", 1, quiesce],
          ["stop", 2, stop]
        ]),
        settledByLastStep: false
      }
    ]
  }
)
