/**
 * Which machine an operation is about, and recipes of new ones. A recipe says everything that builds or removes a
 * machine; its ids are drawn anew each time, so that nothing that ever was can be meant by it.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import {
  runtimeCpuMillisDefault,
  runtimeMemoryMebibytesDefault,
  runtimeProcessesDefault,
  sandboxLifeSecondsMax
} from "../Bounds.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { Identifiers } from "../Identifiers.ts"
import { Generation, type ProjectId, SandboxId } from "../Identity.ts"
import { specOf } from "../registry/creation.ts"
import { Registry } from "../registry/Registry.ts"
import type { SandboxRequest } from "../registry/sandboxRequest.ts"
import { Disks } from "../runtimes/Disks.ts"
import { MachineRecipe, workspaceOf } from "../runtimes/Runtime.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import type { Operation } from "./Operation.ts"
import { OperationRefused } from "./OperationRefused.ts"

/** The machine that the runtime's row names now, or null. */
export const namedMachine = Effect.fnUntraced(function* ({ project }: Pick<Operation, "project">) {
  const runtime = yield* (yield* RuntimeStore).runtime(project)
  return runtime._tag === "Some" ? runtime.value.recipe : null
})

/** The same where there has to be one. */
export const presentMachine = Effect.fnUntraced(function* (operation: Operation) {
  const recipe = yield* namedMachine(operation)
  if (recipe !== null) return recipe
  return yield* new OperationRefused({
    project: operation.project,
    code: "runtime_not_provisioned",
    why: "it has no machine: provision it first"
  })
})

/** The machine that the operation builds or works on: its own new one, else the runtime's. */
export const machineToBuild = (operation: Operation) =>
  operation.newRecipe === null ? presentMachine(operation) : Effect.succeed(operation.newRecipe)

/** What the node's registry is asked for, so that the recipe's machine is carried. */
export const requestOf = (project: ProjectId, recipe: MachineRecipe): SandboxRequest => ({
  id: recipe.sandbox,
  generation: recipe.generation,
  image: recipe.image,
  argv: [],
  environment: {},
  metadata: { project: String(project) },
  cpuMillis: recipe.cpuMillis,
  memoryBytes: recipe.memoryBytes,
  processesMax: recipe.processesMax,
  disk: workspaceOf(recipe) ?? null,
  lifeSeconds: sandboxLifeSecondsMax
})

const mebibyteBytes = 1024 ** 2

const supervisorOf = (name: string) => Schema.decodeUnknownSync(MachineRecipe.fields.supervisor)(name)

/** Where a machine works that takes the place of another one: where that one did. */
const workspaceKept = ({ adoptedDisk, disks }: MachineRecipe) =>
  adoptedDisk === undefined ? { disks } : { disks, adoptedDisk }

/** Where a provisioned machine works: in the directory that it adopts, where the one before it did, or on a new disk. */
const workspaceFor = Effect.fnUntraced(function* (operation: Operation, old: MachineRecipe | null) {
  const { uuid } = yield* Identifiers
  const { adoptDisk } = operation.parameters
  if (adoptDisk !== undefined) return { disks: [], adoptedDisk: adoptDisk }
  if (old === null) return { disks: [(yield* Disks).pathOf(operation.project, yield* uuid)] }
  return workspaceKept(old)
})

/** A fresh recipe for what `provision` was asked; the next generation where it takes another machine's place. */
export const provisionedRecipe = Effect.fnUntraced(function* (
  operation: Operation,
  old: MachineRecipe | null
) {
  const { uuid } = yield* Identifiers
  const registry = yield* Registry
  const asked = operation.parameters
  return new MachineRecipe({
    supervisor: supervisorOf(asked.supervisor ?? "auto"),
    image: asked.image ?? "host",
    cpuMillis: asked.cpuMillis ?? runtimeCpuMillisDefault,
    memoryBytes: (asked.memoryMebibytes ?? runtimeMemoryMebibytesDefault) * mebibyteBytes,
    processesMax: asked.processesMax ?? runtimeProcessesDefault,
    node: registry.node,
    sandbox: SandboxId.make(`sb-${yield* uuid}`),
    generation: old === null ? operation.generation : Generation.make(old.generation + 1),
    ...(yield* workspaceFor(operation, old))
  })
})

/** The recipe of what takes a machine's place: the next generation on the same disks, changed as it was asked. */
export const nextRecipe = Effect.fnUntraced(function* (operation: Operation, old: MachineRecipe) {
  const { uuid } = yield* Identifiers
  const asked = operation.parameters
  return new MachineRecipe({
    supervisor: asked.supervisor === undefined ? old.supervisor : supervisorOf(asked.supervisor),
    image: asked.image ?? old.image,
    cpuMillis: asked.cpuMillis ?? old.cpuMillis,
    memoryBytes:
      asked.memoryMebibytes === undefined ? old.memoryBytes : asked.memoryMebibytes * mebibyteBytes,
    processesMax: asked.processesMax ?? old.processesMax,
    node: old.node,
    sandbox: SandboxId.make(`sb-${yield* uuid}`),
    generation: Generation.make(old.generation + 1),
    ...workspaceKept(old)
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

/** Whether this daemon can build the machine, judged before anything of it exists or of an old one is ended. */
export const requireBuildable = Effect.fnUntraced(function* (operation: Operation, recipe: MachineRecipe) {
  const supervisor = yield* GuestSupervisor
  const { supervisor: kind } = supervisor.capabilities
  if (recipe.supervisor !== "auto" && recipe.supervisor !== kind) {
    return yield* new OperationRefused({
      project: operation.project,
      code: "supervisor_unavailable",
      why: `it asks for ${recipe.supervisor}, and this daemon carries guests by ${kind}: start the daemon with that supervisor or ask for auto`
    })
  }
  const launch = {
    ...requestOf(operation.project, recipe),
    runId: "",
    attemptId: "",
    disk: recipe.adoptedDisk ?? null
  }
  yield* supervisor.validate(specOf(launch))
})
