/** The actions on a machine as cases: what each begins with, and the one state that it may leave. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { machineOf, type Operation, type OperationRequest } from "../../../src/domain/operations/Operation.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { Processes } from "../../../src/domain/Processes.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { Disks } from "../../../src/domain/runtimes/Disks.ts"
import type { Runtime } from "../../../src/domain/runtimes/Runtime.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import { endByItself, failNext } from "../../../src/infra/guests/scriptedState.ts"
import { newProject, requestOf, type Scene, Scripted } from "../removal/fixture.ts"

const runtimeOf = ({ project }: Scene) =>
  Effect.flatMap(RuntimeStore, (store) => Effect.map(store.runtime(project), Option.getOrThrow))

export const receiptOf = (id: Operation["id"]) =>
  Effect.flatMap(OperationStore, (store) => Effect.map(store.byId(id), Option.getOrThrow))

export const claim = Effect.gen(function* () {
  const { current } = yield* Processes
  return Option.getOrThrow(yield* claimNext(current))
})

/** Admits the request, or arms it again, and carries it out to its end. */
export const carryOut = (scene: Scene, request: OperationRequest) =>
  Effect.gen(function* () {
    yield* admitOperation(scene.caller, request)
    const claimed = yield* claim
    yield* executeClaimed(claimed)
    return yield* receiptOf(claimed.id)
  })

const provisioned = Effect.gen(function* () {
  const scene = yield* newProject
  const { errorText, state } = yield* carryOut(scene, requestOf(scene.project, "provision"))
  assert.strictEqual(state, "succeeded", errorText ?? "")
  return scene
})

const guestOf = (scene: Scene) => Effect.map(runtimeOf(scene), ({ sandbox }) => sandbox!)

/** What is there before the action, and what has to be there after it. */
export interface Case {
  readonly name: string
  readonly action: Parameters<typeof requestOf>[1]
  readonly begin: Effect.Effect<Scene, unknown, Effect.Services<ReturnType<typeof carryOut>> | Needs>
  readonly leaves: "running" | "stopped"
  /** Whether another machine takes the place of the one before. */
  readonly isReplaced: boolean
  /** Whether the guest that ran before must be another one afterwards. */
  readonly isRestarted: boolean
  /** What the workspace holds afterwards, and its snapshot. None: nobody has written, and there is none. */
  readonly holds?: { readonly workspace: string; readonly snapshot: string }
}

type Needs = Scripted | Effect.Services<typeof newProject> | Effect.Services<ReturnType<typeof deleteSandbox>>

const workspaceOf = (scene: Scene) =>
  Effect.map(runtimeOf(scene), ({ recipe }) => join(recipe!.disks[0]!, "counter"))

const writing = (text: string) => (scene: Scene) =>
  Effect.map(workspaceOf(scene), (path) => writeFileSync(path, text))

const written = Effect.tap(provisioned, writing("one"))

const asked = (action: Case["action"]) => (scene: Scene) => carryOut(scene, requestOf(scene.project, action))

const snapshotted = written.pipe(Effect.tap(asked("snapshot")), Effect.tap(writing("two")))

const snapshotCases: ReadonlyArray<Case> = [
  {
    name: "snapshot",
    action: "snapshot",
    begin: written,
    leaves: "running",
    isReplaced: false,
    isRestarted: false,
    holds: { workspace: "one", snapshot: "one" }
  },
  {
    name: "snapshot of a stopped machine",
    action: "snapshot",
    begin: Effect.tap(written, asked("stop")),
    leaves: "stopped",
    isReplaced: false,
    isRestarted: false,
    holds: { workspace: "one", snapshot: "one" }
  },
  {
    name: "restore",
    action: "restore",
    begin: snapshotted,
    leaves: "running",
    isReplaced: true,
    isRestarted: true,
    holds: { workspace: "one", snapshot: "one" }
  }
]

export const cases: ReadonlyArray<Case> = [
  {
    name: "provision",
    action: "provision",
    begin: newProject,
    leaves: "running",
    isReplaced: false,
    isRestarted: true
  },
  {
    name: "provision in the place of a machine that did not come up",
    action: "provision",
    begin: Effect.tap(newProject, (scene) =>
      Effect.gen(function* () {
        failNext((yield* Scripted).guests, "execute")
        assert.strictEqual((yield* carryOut(scene, requestOf(scene.project, "provision"))).state, "failed")
      })
    ),
    leaves: "running",
    isReplaced: true,
    isRestarted: true
  },
  {
    name: "start of a stopped machine",
    action: "start",
    begin: Effect.tap(provisioned, (scene) => carryOut(scene, requestOf(scene.project, "stop"))),
    leaves: "running",
    isReplaced: false,
    isRestarted: true
  },
  {
    name: "stop",
    action: "stop",
    begin: provisioned,
    leaves: "stopped",
    isReplaced: false,
    isRestarted: false
  },
  {
    name: "restart",
    action: "restart",
    begin: provisioned,
    leaves: "running",
    isReplaced: false,
    isRestarted: true
  },
  {
    name: "rebuild",
    action: "rebuild",
    begin: provisioned,
    leaves: "running",
    isReplaced: true,
    isRestarted: true
  },
  {
    name: "recover of a guest that has ended",
    action: "recover",
    begin: Effect.tap(provisioned, (scene) =>
      Effect.gen(function* () {
        endByItself((yield* Scripted).guests, yield* guestOf(scene), 1)
      })
    ),
    leaves: "running",
    isReplaced: false,
    isRestarted: true
  },
  {
    name: "recover of a guest that answers",
    action: "recover",
    begin: provisioned,
    leaves: "running",
    isReplaced: false,
    isRestarted: false
  },
  {
    name: "recover of a machine that the node has lost",
    action: "recover",
    begin: Effect.tap(provisioned, (scene) =>
      Effect.flatMap(guestOf(scene), (sandbox) =>
        deleteSandbox(sandbox, { reason: "user", actor: "somebody" })
      )
    ),
    leaves: "running",
    isReplaced: true,
    isRestarted: true
  },
  ...snapshotCases
]

/** The Project's disks are the workspace and its snapshot, with what each holds, and nothing else. */
const checkDisks = (scene: Scene, holds: NonNullable<Case["holds"]>, told: string) =>
  Effect.gen(function* () {
    const path = yield* workspaceOf(scene)
    const [snapshot, ...others] = yield* (yield* SnapshotRows).ofProject(scene.project)
    assert.deepStrictEqual([snapshot?.state, snapshot?.pausedBy, others], ["ready", null, []], told)
    assert.strictEqual(readFileSync(path, "utf8"), holds.workspace, told)
    assert.strictEqual(readFileSync(join(snapshot!.path, "counter"), "utf8"), holds.snapshot, told)
    const root = (yield* Disks).rootOf(scene.project)
    assert.sameMembers(
      readdirSync(root).map((name) => join(root, name)),
      [dirname(path), snapshot!.path],
      told
    )
  })

const aliveOf = (sandboxes: ReadonlyArray<SandboxId | null>) =>
  Effect.map(Scripted, ({ guests }) =>
    [...guests.guests.values()]
      .filter(({ isAlive, spec }) => isAlive && sandboxes.includes(spec.sandbox))
      .map(({ identity, isPaused, spec }) => ({ sandbox: spec.sandbox, pid: identity.init.pid, isPaused }))
  )

interface Before {
  readonly scene: Scene
  readonly runtime: Option.Option<Runtime>
  readonly alive: ReadonlyArray<{
    readonly sandbox: SandboxId
    readonly pid: number
    readonly isPaused: boolean
  }>
}

export const look = (scene: Scene) =>
  Effect.gen(function* () {
    const runtime = yield* Effect.flatMap(RuntimeStore, (store) => store.runtime(scene.project))
    const sandbox = Option.getOrNull(runtime)?.sandbox ?? null
    return { scene, runtime, alive: yield* aliveOf([sandbox]) } satisfies Before
  })

/** The one state that the action may leave, whatever happened on the way. */
export const check = (
  expected: Case,
  { alive, runtime, scene }: Before,
  operation: Operation,
  told: string
) =>
  Effect.gen(function* () {
    const receipt = yield* receiptOf(operation.id)
    assert.strictEqual(receipt.state, "succeeded", `${told}: ${receipt.errorText}`)
    const after = yield* runtimeOf(scene)
    const before = Option.getOrNull(runtime)
    assert.deepStrictEqual([after.desired, after.observed], [expected.leaves, expected.leaves], told)
    const oldSandbox = before?.sandbox ?? null
    const inventory = yield* (yield* Registry).inventory
    const records = [...inventory.values()].filter(
      ({ metadata }) => metadata["project"] === String(scene.project)
    )
    assert.deepStrictEqual(
      records.map(({ deletion, id, status }) => [id, status, deletion]),
      [[after.sandbox, expected.leaves === "running" ? "Running" : "Terminated", null]],
      told
    )
    const guests = yield* aliveOf([oldSandbox, after.sandbox])
    assert.deepStrictEqual(
      guests.map(({ isPaused, sandbox }) => [sandbox, isPaused]),
      expected.leaves === "running" ? [[after.sandbox, false]] : [],
      told
    )
    if (expected.leaves === "running") {
      const isAnother = guests[0]?.pid !== alive[0]?.pid
      assert.strictEqual(isAnother, expected.isRestarted, told)
    }
    if (before === null) {
      assert.deepStrictEqual(receipt.owed, [machineOf(after.recipe!)], told)
      return
    }
    assert.strictEqual(after.sandbox !== oldSandbox, expected.isReplaced, told)
    assert.strictEqual(after.generation, before.generation + (expected.isReplaced ? 1 : 0), told)
    if (expected.holds === undefined) {
      assert.deepStrictEqual(after.recipe?.disks, before.recipe?.disks, told)
    } else {
      yield* checkDisks(scene, expected.holds, told)
    }
    assert.deepStrictEqual(receipt.owed, expected.isReplaced ? [machineOf(after.recipe!)] : [], told)
    if (expected.isReplaced) {
      assert.isTrue(
        receipt.absences.some((sentence) => sentence.startsWith(`${oldSandbox} `)),
        told
      )
    }
  })
