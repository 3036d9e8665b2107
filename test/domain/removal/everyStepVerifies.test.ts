/** What was confirmed may have changed since the step before: each step of a removal asks again before its act. */
import { existsSync } from "node:fs"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { StepRecorder } from "../../../src/domain/operations/plan.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removalPlan } from "../../../src/domain/removal/removalSteps.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import { Clone } from "../../support/clone.ts"
import { admitDeletion, ask, fixture, provisioned, settled } from "./fixture.ts"

/** No step may come so far as to write anything. */
const written = Effect.die(new Error("a step that was refused wrote something"))
const recorder: StepRecorder = { record: () => written, recordMove: () => written, log: () => written }

/** A Project with a disk and a snapshot whose deletion has been admitted as it was previewed. */
const admitted = Effect.gen(function* () {
  const scene = yield* provisioned
  yield* Effect.flatMap(ask(scene, "snapshot"), settled)
  const { paths } = yield* describeProjectRemoval(scene.project)
  yield* admitDeletion(scene, paths)
  const [disk] = scene.operation.newRecipe?.disks ?? []
  const [snapshot] = yield* (yield* SnapshotRows).ofProject(scene.project)
  return { ...scene, disk: disk ?? "", snapshot: snapshot?.path ?? "" }
})

describe("every step of a removal", () => {
  layer(fixture, { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    for (const [index, name] of ["stop", "guests", "storage", "records"].entries()) {
      it.effect(`SP-DEL-07 ${name} is refused before its act while a path is not confirmed`, () =>
        Effect.gen(function* () {
          const { disk, operation, project, snapshot } = yield* admitted
          const step = (yield* removalPlan).steps[index]
          assert.strictEqual(step?.name, name)
          yield* (yield* Clone).admin(
            `update core.project_deletions set confirmed_paths = array_remove(confirmed_paths, $2)
              where project_id = $1::bigint`,
            [BigInt(project), snapshot]
          )
          const refused = yield* Effect.flip(step!.run(operation, recorder))
          assert.deepStrictEqual(
            [refused._tag, "paths" in refused ? refused.paths : []],
            ["ConfirmationNeeded", [snapshot]]
          )
          assert.deepStrictEqual([existsSync(disk), existsSync(snapshot)], [true, true])
          const sandbox = operation.newRecipe!.sandbox
          const record = (yield* (yield* Registry).inventory).get(sandbox)
          assert.deepInclude(record, { status: "Running", deletion: null })
          assert.lengthOf(yield* (yield* SnapshotRows).ofProject(project), 1)
        })
      )
    }
  })
})
