/** A Project whose provision was cut off and taken back: what it had made by then goes with the Project. */
import { existsSync } from "node:fs"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { supersedeOperation } from "../../../src/domain/operations/supersede.ts"
import { Processes } from "../../../src/domain/Processes.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import { Disks } from "../../../src/domain/runtimes/Disks.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { waitFor } from "../../support/waiting.ts"
import { cutAt } from "../../support/boundaries.ts"
import { claim, receiptOf } from "../operations/actionCases.ts"
import { admitDeletion, newProject, requestOf, undispatched } from "./fixture.ts"

/** Provisions until it is cut off there, has the operation taken back, and deletes the Project. */
const givenUpAt = (at: number) =>
  Effect.gen(function* () {
    const scene = yield* newProject
    const { caller, project } = scene
    const registry = yield* Registry
    const { rootOf } = yield* Disks
    const before = yield* registry.inventory
    yield* admitOperation(caller, requestOf(project, "provision"))
    const claimed = yield* claim
    const { observer, reached } = cutAt(at)
    yield* Effect.exit(executeClaimed(claimed).pipe(Effect.provideService(StepObserver, observer)))
    const left = yield* receiptOf(claimed.id)
    if (left.state === "claimed") {
      assert.isTrue(yield* (yield* OperationStore).requeueIfClaimedBy(left))
      yield* supersedeOperation(caller, { id: claimed.id, project })
    }
    const { paths } = yield* describeProjectRemoval(project)
    yield* admitDeletion(scene, paths)
    const removing = yield* Effect.forkChild(removeProject(project))
    const { current } = yield* Processes
    const look = claimNext(current)
    yield* executeClaimed(
      Option.getOrThrow(yield* waitFor({ fact: "the deletion is queued", look, holds: Option.isSome }))
    )
    yield* Fiber.join(removing)
    const where = `cut ${reached[at - 1] ?? "nowhere"}`
    assert.isFalse(existsSync(rootOf(project)), `${where}: its disks are there`)
    assert.deepStrictEqual([...(yield* registry.inventory).keys()], [...before.keys()], where)
    return reached
  })

layer(undispatched, { excludeTestServices: true, timeout: "60 seconds" })(
  "removal of what was given up",
  (it) => {
    it.effect(
      "SP-DEL-10 SP-DEL-11 wherever a provision was cut off and taken back, nothing of it stays",
      () =>
        Effect.gen(function* () {
          const boundaries = yield* givenUpAt(Number.POSITIVE_INFINITY)
          assert.isAbove(boundaries.length, 10)
          for (let at = 1; at <= boundaries.length; at += 1) yield* givenUpAt(at)
        })
    )
  }
)
