/** A Project is given one machine, however often it is provisioned: what did not come up makes way, with proof. */
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { supersedeOperation } from "../../../src/domain/operations/supersede.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { Disks } from "../../../src/domain/runtimes/Disks.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { failNext, type ScriptedCall } from "../../../src/infra/guests/scriptedState.ts"
import { newProject, requestOf, type Scene, Scripted, undispatched } from "../removal/fixture.ts"
import { carryOut, claim, receiptOf } from "./actionCases.ts"

const provision = ({ project }: Scene) => requestOf(project, "provision")

/** A provision whose guest does not come so far. */
const failedAt = (scene: Scene, call: ScriptedCall) =>
  Effect.gen(function* () {
    const { guests } = yield* Scripted
    failNext(guests, call)
    const request = provision(scene)
    const receipt = yield* carryOut(scene, request)
    assert.strictEqual(receipt.state, "failed")
    guests.faults.length = 0
    return { receipt, request }
  })

const runtimeOf = ({ project }: Scene) =>
  Effect.flatMap(RuntimeStore, (store) => Effect.map(store.runtime(project), Option.getOrThrow))

/** The Project's records in the node's registry, and its guests that are alive. */
const carried = ({ project }: Scene) =>
  Effect.gen(function* () {
    const records = [...(yield* (yield* Registry).inventory).values()].filter(
      ({ metadata }) => metadata["project"] === String(project)
    )
    const { guests } = yield* Scripted
    const ids = records.map(({ id }) => id)
    return {
      records: ids,
      alive: ids.filter((id) => guests.guests.get(id)?.isAlive === true)
    }
  })

layer(undispatched, { excludeTestServices: true, timeout: "60 seconds" })(
  "operations/provisionSteps",
  (it) => {
    it.effect(
      "SP-OPS-03 a provision after failed ones leaves one machine, of the next generation each time",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          // The first has no guest; the second has one that runs and cannot be used.
          const first = (yield* failedAt(scene, "start")).receipt
          const disk = first.newRecipe!.disks[0]!
          writeFileSync(join(disk, "kept"), "of the Project")
          const second = (yield* failedAt(scene, "execute")).receipt
          assert.lengthOf((yield* carried(scene)).alive, 1)
          const last = yield* carryOut(scene, provision(scene))
          assert.strictEqual(last.state, "succeeded", last.errorText ?? "")
          const { sandbox } = last.newRecipe!
          assert.deepStrictEqual(yield* carried(scene), { records: [sandbox], alive: [sandbox] })
          const runtime = yield* runtimeOf(scene)
          assert.deepStrictEqual(
            [runtime.generation, runtime.sandbox, runtime.observed],
            [3, sandbox, "running"]
          )
          assert.deepStrictEqual(runtime.recipe?.disks, [disk])
          assert.strictEqual(readFileSync(join(disk, "kept"), "utf8"), "of the Project")
          for (const [receipt, next] of [
            [first, second],
            [second, last]
          ] as const) {
            const proved = next.absences.filter((told) => told.startsWith(`${receipt.newRecipe!.sandbox} `))
            assert.lengthOf(proved, 1)
          }
        })
    )

    it.effect(
      "SP-OPS-03 what was taken back before any row named it makes way for the next provision too",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const { caller, project } = scene
          yield* admitOperation(caller, provision(scene))
          const claimed = yield* claim
          const cut = {
            before: () => Effect.void,
            after: (program: string, step: string) =>
              program === "registry.createSandbox" && step === "admit" ? Effect.interrupt : Effect.void
          }
          yield* Effect.exit(Effect.provideService(executeClaimed(claimed), StepObserver, cut))
          assert.isTrue(yield* (yield* OperationStore).requeueIfClaimedBy(claimed))
          yield* supersedeOperation(caller, { id: claimed.id, project })
          const givenUp = yield* receiptOf(claimed.id)
          assert.deepStrictEqual((yield* carried(scene)).records, [givenUp.newRecipe?.sandbox])
          const last = yield* carryOut(scene, provision(scene))
          const { sandbox } = last.newRecipe!
          assert.deepStrictEqual(yield* carried(scene), { records: [sandbox], alive: [sandbox] })
          const { absences, owed } = yield* receiptOf(claimed.id)
          assert.deepStrictEqual(owed, [])
          assert.isTrue(absences[0]?.startsWith(`${givenUp.newRecipe?.sandbox} `))
        })
    )

    it.effect("SP-OPS-03 the same request goes on with the machine that it began to make", () =>
      Effect.gen(function* () {
        const scene = yield* newProject
        const { receipt, request } = yield* failedAt(scene, "start")
        const again = yield* carryOut(scene, request)
        assert.deepStrictEqual([again.state, again.newRecipe], ["succeeded", receipt.newRecipe])
        const { sandbox } = receipt.newRecipe!
        assert.deepStrictEqual(yield* carried(scene), { records: [sandbox], alive: [sandbox] })
        assert.strictEqual((yield* runtimeOf(scene)).generation, 1)
      })
    )

    it.effect("SP-OPS-03 a request whose machine another one has come before makes none beside it", () =>
      Effect.gen(function* () {
        const scene = yield* newProject
        const root = (yield* Disks).rootOf(scene.project)
        // The first cannot make its disk, so that no row names its machine.
        writeFileSync(root, "in the way")
        const request = provision(scene)
        assert.strictEqual((yield* carryOut(scene, request)).errorCode, "disk_failure")
        rmSync(root)
        const { receipt } = yield* failedAt(scene, "start")
        const late = yield* carryOut(scene, request)
        assert.deepStrictEqual([late.state, late.errorCode], ["failed", "generation_conflict"])
        assert.deepStrictEqual((yield* carried(scene)).records, [receipt.newRecipe?.sandbox])
        assert.strictEqual((yield* runtimeOf(scene)).sandbox, receipt.newRecipe?.sandbox)
      })
    )
  }
)
