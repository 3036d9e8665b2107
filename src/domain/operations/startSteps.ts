/**
 * The steps that bring a machine up, for every action that ends with one that runs. Each converges: run again after a
 * crash it finds what is there and makes only what is missing, so that no second guest can come of it.
 * Source: SP-OPS-03, SP figures.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { guestReadyMillisMax, guestReadyPollMillis } from "../Bounds.ts"
import { GuestCommand } from "../guests/GuestSpec.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { createSandbox } from "../registry/creation.ts"
import { startSandbox } from "../registry/lifecycle.ts"
import { Disks } from "../runtimes/Disks.ts"
import {
  machineToBuild,
  namedMachine,
  requestOf,
  requireBuildable,
  requireCarriedHere
} from "./machineRecipes.ts"
import type { MachineAct, MachineSteps } from "./machineServices.ts"
import { machineGenerationOf, type Operation } from "./Operation.ts"
import { OperationRefused, replacedMeanwhile } from "./OperationRefused.ts"
import { nothingMore } from "./plan.ts"

/** Whether the machine can be built here is seen before anything is done for it. */
const image: MachineAct = Effect.fnUntraced(function* (operation) {
  const recipe = yield* machineToBuild(operation)
  yield* requireCarriedHere(operation, recipe)
  yield* requireBuildable(operation, recipe)
  return nothingMore
})

/** A machine without a disk of its own may still get snapshots, which lie below the Project's root. */
const storage: MachineAct = Effect.fnUntraced(function* (operation) {
  const disks = yield* Disks
  const recipe = yield* machineToBuild(operation)
  const paths = recipe.disks.length === 0 ? [disks.rootOf(operation.project)] : recipe.disks
  yield* Effect.forEach(paths, disks.ensure, { discard: true })
  return nothingMore
})

/** A request that failed before may come back when another one has given the Project a machine. */
const requirePlace = Effect.fnUntraced(function* (operation: Operation) {
  if (operation.newRecipe === null) return
  const named = yield* namedMachine(operation)
  if (named !== null && named.sandbox !== operation.newRecipe.sandbox) {
    return yield* replacedMeanwhile(operation)
  }
})

/** The node's registry owes the machine, then the runtime's row names it, unless the claim was lost. */
const guest: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  const recipe = yield* machineToBuild(operation)
  yield* requirePlace(operation)
  yield* createSandbox(requestOf(operation.project, recipe))
  const generation = machineGenerationOf(operation)
  const isNamed = yield* recorder.recordMove(nothingMore, (store) =>
    store.saveRecipe(operation.project, { generation, recipe })
  )
  return isNamed ? nothingMore : yield* replacedMeanwhile(operation)
})

const boot: MachineAct = Effect.fnUntraced(function* (operation, recorder) {
  const recipe = yield* machineToBuild(operation)
  yield* startSandbox(recipe.sandbox)
  yield* recorder.log(`${recipe.sandbox} is up`)
  return nothingMore
})

/** Asks until the guest's agent answers, or the time for it is over. Source: SP figures (boot ready 30 s, poll 100 ms). */
const ready: MachineAct = Effect.fnUntraced(function* (operation) {
  const supervisor = yield* GuestSupervisor
  const recipe = yield* machineToBuild(operation)
  yield* supervisor.ping(recipe.sandbox).pipe(
    Effect.retry({
      schedule: Schedule.spaced(guestReadyPollMillis),
      times: Math.ceil(guestReadyMillisMax / guestReadyPollMillis)
    })
  )
  return nothingMore
})

/** The first command in the guest: its workspace takes writes. What a later one needs is not promised before. */
const initialise: MachineAct = Effect.fnUntraced(function* (operation) {
  const supervisor = yield* GuestSupervisor
  const recipe = yield* machineToBuild(operation)
  const probe = new GuestCommand({
    argv: ["/bin/sh", "-c", "test -w ."],
    environment: {},
    workingDirectory: "/workspace",
    standardInput: null,
    timeoutMillis: guestReadyMillisMax
  })
  const last = yield* Stream.runLast(supervisor.execute(recipe.sandbox, probe))
  if (last._tag === "Some" && last.value._tag === "Exited" && last.value.exitCode === 0) return nothingMore
  return yield* new OperationRefused({
    project: operation.project,
    code: "workspace_not_writable",
    why: "its guest cannot write to /workspace"
  })
})

/** Steps and weights of a start. Source: SP figures. */
export const startSteps: MachineSteps = [
  ["image", 10, image],
  ["storage", 1, storage],
  ["guest", 2, guest],
  ["boot", 2, boot],
  ["ready", 2, ready],
  ["initialise", 1, initialise]
]
