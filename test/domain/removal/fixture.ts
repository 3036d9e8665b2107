/**
 * The whole runtime over scripted guests: real stores on a clone, a real registry and disks in a temporary directory,
 * the dispatcher at work. Every port that reaches outside the database is guarded: its use while a transaction is open
 * fails the test. Source: SP-TX-08.
 */
import { join } from "node:path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Displays } from "../../../src/domain/desktop/Displays.ts"
import { GuestCommand } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import type { Caller } from "../../../src/domain/host/Accounts.ts"
import { DeletionStore } from "../../../src/domain/host/DeletionStore.ts"
import { LaunchCredentials } from "../../../src/domain/host/LaunchCredentials.ts"
import { ProjectStore } from "../../../src/domain/host/ProjectStore.ts"
import { type ProjectId, RequestKey, SnapshotId } from "../../../src/domain/Identity.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { dispatch } from "../../../src/domain/operations/claims.ts"
import { Executions } from "../../../src/domain/operations/Executions.ts"
import {
  type Operation,
  type OperationAction,
  type OperationRequest,
  settledStates
} from "../../../src/domain/operations/Operation.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { runCommand } from "../../../src/domain/operations/runCommand.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { Processes } from "../../../src/domain/Processes.ts"
import { RunState } from "../../../src/domain/reclamation/RunState.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { SandboxPaths, storageParticipant } from "../../../src/domain/removal/RemovalPlan.ts"
import { Disks } from "../../../src/domain/runtimes/Disks.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { WorkspaceCopies } from "../../../src/domain/runtimes/WorkspaceCopies.ts"
import * as CopiesAdapter from "../../../src/infra/filesystem/WorkspaceCopies.ts"
import * as DisksAdapter from "../../../src/infra/filesystem/Disks.ts"
import * as DisplaysAdapter from "../../../src/infra/guests/Displays.ts"
import type { ScriptedState } from "../../../src/infra/guests/scriptedState.ts"
import * as Identifiers from "../../../src/infra/Identifiers.ts"
import * as ProcessesAdapter from "../../../src/infra/Processes.ts"
import * as Domain from "../../../src/layers/domain.ts"
import * as Live from "../../../src/layers/live.ts"
import { Clone, clone } from "../../support/clone.ts"
import { layerGuarded } from "../../support/outsideGuard.ts"
import { freshNode } from "../registry/guestFixture.ts"
import { mkdirSync } from "node:fs"

/** The node under the fixture: where its files are, and its guests' script. */
export class Scripted extends Context.Service<
  Scripted,
  { readonly directory: string; readonly guests: ScriptedState }
>()("holdfast/test/domain/removal/fixture/Scripted") {}

const machine = Layer.unwrap(
  Effect.map(freshNode(), ({ context, directory, guests, registry }) => {
    mkdirSync(join(directory, "disks"), { mode: 0o711 })
    const services = Layer.succeedContext(context)
    const disks = DisksAdapter.layer({ stateDirectory: directory })
    return Layer.mergeAll(
      layerGuarded(GuestSupervisor, services),
      layerGuarded(RunState, services),
      layerGuarded(Disks, disks),
      layerGuarded(WorkspaceCopies, CopiesAdapter.layer().pipe(Layer.provide(disks))),
      Layer.succeed(Registry, registry),
      Layer.succeed(SandboxPaths, { pathOf: (sandbox) => join(directory, "runtime", sandbox) }),
      Layer.succeed(Scripted, { directory, guests }),
      Layer.succeed(LaunchCredentials, LaunchCredentials.of({ resolve: () => Effect.succeed([]) })),
      ProcessesAdapter.layer(registry.node)
    )
  })
).pipe(Layer.provideMerge(Identifiers.layer))

const registered = Layer.effectDiscard(
  Effect.gen(function* () {
    const { node } = yield* Registry
    yield* (yield* RuntimeStore).registerNode({ id: node, name: "test" })
  })
)

export interface FixtureParts {
  readonly displays: Layer.Layer<Displays>
  /** What everything that is made over the database's handle gets instead of it. */
  readonly observe: (db: PluginDb["Service"]) => PluginDb["Service"]
}

const ordinary: FixtureParts = { displays: DisplaysAdapter.layer, observe: (db) => db }

const undispatchedOver = ({ displays, observe }: FixtureParts) => {
  const observed = Layer.effect(PluginDb, Effect.map(PluginDb, observe)).pipe(Layer.provideMerge(clone(8)))
  return registered.pipe(
    Layer.provideMerge(Domain.layer),
    Layer.provideMerge(Live.stores),
    Layer.provideMerge(Layer.mergeAll(machine, displays, observed))
  )
}

/** Everything but somebody who claims. One for each file: every test makes its own Projects. */
export const undispatched = undispatchedOver(ordinary)

const dispatching = Layer.effectDiscard(
  Effect.gen(function* () {
    const { current } = yield* Processes
    const executions = yield* Executions
    yield* Effect.forkScoped(dispatch(current, executions))
  })
)

/** Everything, with the dispatcher running, over parts of the test's. */
export const fixtureOver = (parts: FixtureParts) =>
  dispatching.pipe(Layer.provideMerge(undispatchedOver(parts)))

/** Everything, with the dispatcher running. */
export const fixture = fixtureOver(ordinary)

let names = 0

export interface Scene {
  readonly caller: Caller
  readonly project: ProjectId
}

export const newProject = Effect.gen(function* () {
  const projects = yield* ProjectStore
  const caller = yield* projects.bootstrap
  names += 1
  const { id } = yield* projects.create(caller, `project-${names}`)
  return { caller, project: id } satisfies Scene
})

/** Waits until the operation has settled and answers its receipt. */
export const settled = (operation: Operation) =>
  Effect.flatMap(OperationStore, (store) =>
    Effect.map(store.byId(operation.id), Option.getOrThrow).pipe(
      Effect.repeat({
        until: ({ state }) => settledStates.includes(state),
        schedule: Schedule.spaced(10),
        times: 1_000
      })
    )
  )

type Asked = Exclude<OperationAction, "delete">

/** The snapshot that requests are about, unless they say otherwise. */
export const keptSnapshot = SnapshotId.make("kept")

const parametersOf = (action: Asked): OperationRequest["parameters"] => {
  if (action === "provision") return { cpuMillis: 100, memoryMebibytes: 128 }
  return action === "snapshot" || action === "restore" ? { snapshot: keptSnapshot } : {}
}

/** A request with a key of its own. */
export const requestOf = (project: ProjectId, action: Asked): OperationRequest => ({
  project,
  action,
  requestKey: RequestKey.make(`${action}-${project}-${(names += 1)}`),
  expectedGeneration: null,
  parameters: parametersOf(action)
})

export const ask = ({ caller, project }: Scene, action: Asked) =>
  Effect.map(admitOperation(caller, requestOf(project, action)), ({ operation }) => operation)

/** A Project whose machine is up. */
export const provisioned = Effect.gen(function* () {
  const scene = yield* newProject
  const operation = yield* Effect.flatMap(ask(scene, "provision"), settled)
  return { ...scene, operation }
})

/** A command in the Project's machine: what it answers is up to the script of the guests. */
export const commandOf = ({ caller, project }: Scene) =>
  runCommand(
    caller,
    project,
    new GuestCommand({
      argv: ["sleep", "60"],
      environment: {},
      workingDirectory: "/workspace",
      standardInput: null,
      timeoutMillis: 60_000
    })
  )

/** The host admits the deletion of the Project, with these paths confirmed. */
export const admitDeletion = ({ caller, project }: Scene, confirmedPaths: ReadonlyArray<string>) =>
  Effect.flatMap(DeletionStore, (store) =>
    store.admit({ caller, project, participants: [storageParticipant], confirmedPaths })
  )

/** One number that a statement of the test counts. */
export const count = (text: string, project: ProjectId) =>
  Effect.flatMap(Clone, ({ admin }) =>
    Effect.map(admin(text, [BigInt(project)]), ([row]) => Number(Object.values(row ?? {})[0]))
  )
