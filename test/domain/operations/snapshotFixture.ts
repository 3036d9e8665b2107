/** Projects with a workspace and its snapshots over scripted guests, and plans whose copies a test has a hand in. */
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SnapshotId } from "../../../src/domain/Identity.ts"
import { machinePlans } from "../../../src/domain/operations/machinePlans.ts"
import { OperationPlans } from "../../../src/domain/operations/plan.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import { WorkspaceCopies } from "../../../src/domain/runtimes/WorkspaceCopies.ts"
import { keptSnapshot, newProject, requestOf, type Scene, Scripted } from "../removal/fixture.ts"
import { carryOut } from "./actionCases.ts"

/** A Project whose machine is up, with one file in its workspace. */
export const withWorkspace = Effect.gen(function* () {
  const scene = yield* newProject
  yield* carryOut(scene, requestOf(scene.project, "provision"))
  const workspace = (yield* runtimeOf(scene)).recipe!.disks[0]!
  writeFileSync(join(workspace, "counter"), "one")
  return { ...scene, workspace, sandbox: (yield* runtimeOf(scene)).sandbox! }
})

export const runtimeOf = ({ project }: Scene) =>
  Effect.flatMap(RuntimeStore, (store) => Effect.map(store.runtime(project), Option.getOrThrow))

export const snapshotsOf = ({ project }: Scene) =>
  Effect.flatMap(SnapshotRows, (rows) => rows.ofProject(project))

export const snapshotOf = ({ project }: Scene, id: SnapshotId = keptSnapshot) =>
  Effect.flatMap(SnapshotRows, (rows) => rows.byId(project, id))

/** Whether the guest of the Project's machine is alive, and whether it stands still. */
export const guestOf = (scene: Scene) =>
  Effect.gen(function* () {
    const { guests } = yield* Scripted
    const { sandbox } = yield* runtimeOf(scene)
    const guest = guests.guests.get(sandbox!)
    return { isAlive: guest?.isAlive, isPaused: guest?.isPaused }
  })

export const goesOn = { isAlive: true, isPaused: false }
export const standsStill = { isAlive: true, isPaused: true }

/** Everything that lies on the disk for a copy to that path. */
export const leftOf = (path: string): ReadonlyArray<string> =>
  [path, `${path}.part`].filter((each) => existsSync(each))

/** Carries out with plans of which every copy, or every measuring of one, is followed by this. */
export const afterEach =
  <E, R>(call: "copy" | "bytesOf", meddle: Effect.Effect<void, E, R>) =>
  <A, E2, R2>(work: Effect.Effect<A, E2, R2>) =>
    Effect.gen(function* () {
      const context = yield* Effect.context<R>()
      const real = yield* WorkspaceCopies
      // A copy fails as a disk does; what a test does beside it fails as the test.
      const then = Effect.orDie(Effect.provideContext(meddle, context))
      const copies = WorkspaceCopies.of({
        ...real,
        copy: (paths) => Effect.tap(real.copy(paths), () => (call === "copy" ? then : Effect.void)),
        bytesOf: (path) => Effect.tap(real.bytesOf(path), () => (call === "bytesOf" ? then : Effect.void))
      })
      const plans = yield* Effect.provideService(machinePlans, WorkspaceCopies, copies)
      const planOf: OperationPlans["Service"]["planOf"] = (action) =>
        plans.find((plan) => plan.action === action)
      return yield* Effect.provideService(work, OperationPlans, { planOf })
    })
