/** What was confirmed may have changed since the step before: each step of a removal asks again before its act. */
import { existsSync } from "node:fs"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Struct from "effect/Struct"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import type { StepRecorder } from "../../../src/domain/operations/plan.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import type { RemovalNotAdmitted } from "../../../src/domain/removal/RemovalPlan.ts"
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

/** Each condition of SP-DEL-02 as it may come to be missing, while a deletion of before is still queued. */
const missing: Readonly<Record<RemovalNotAdmitted["missing"], string>> = {
  deletion_record: "delete from core.project_deletions where project_id = $1::bigint",
  lifecycle_deleting: "update core.projects set lifecycle = 'active' where id = $1::bigint",
  state_pending: `update core.project_deletions set state = 'completed', completed_at = now()
    where project_id = $1::bigint`,
  participant: "update core.project_deletions set participants = '{other}' where project_id = $1::bigint",
  preceding_steps: `update core.project_deletions set participants = '{service,migration,plugin:sandbox}',
    completed_steps = '{service}' where project_id = $1::bigint`
}

describe("every step of a removal", () => {
  layer(fixture, { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    for (const condition of Struct.keys(missing)) {
      it.effect(`SP-DEL-02 SP-DEL-03 no step, and no new deletion, without ${condition}`, () =>
        Effect.gen(function* () {
          const { disk, operation, project, snapshot } = yield* admitted
          yield* (yield* Clone).admin(missing[condition], [BigInt(project)])
          for (const { name, run } of (yield* removalPlan).steps) {
            const refused = yield* Effect.flip(run(operation, recorder))
            assert.deepStrictEqual(
              [refused._tag, "missing" in refused ? refused.missing : null],
              ["RemovalNotAdmitted", condition],
              name
            )
          }
          assert.strictEqual((yield* Effect.flip(removeProject(project)))._tag, "RemovalNotAdmitted")
          assert.deepStrictEqual([existsSync(disk), existsSync(snapshot)], [true, true])
          const record = (yield* (yield* Registry).inventory).get(operation.newRecipe!.sandbox)
          assert.deepInclude(record, { status: "Running", deletion: null })
          const [newest] = yield* (yield* OperationStore).newestOfProject(project, { limit: 1 })
          assert.strictEqual(newest?.action, "snapshot")
        })
      )
    }

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
