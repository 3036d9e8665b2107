/** Deleting a Project that has snapshots: they are named, confirmed and removed like its disks. */
import { existsSync } from "node:fs"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import { Disks } from "../../../src/domain/runtimes/Disks.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import { hold } from "../../../src/infra/guests/scriptedState.ts"
import { admitDeletion, ask, count, fixture, provisioned, Scripted, settled } from "./fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

describe("removal of snapshots", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "SP-DEL-05 SP-DEL-10 snapshots are described by path and label, and go with the Project",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          yield* Effect.flatMap(ask(scene, "snapshot"), settled)
          const [made] = yield* (yield* SnapshotRows).ofProject(scene.project)
          const { labels, paths } = yield* describeProjectRemoval(scene.project)
          assert.include(paths, made?.path)
          assert.include(labels, "snapshot kept")
          assert.isTrue(existsSync(made?.path ?? ""))
          yield* admitDeletion(scene, paths)
          const removed = yield* removeProject(scene.project)
          assert.deepStrictEqual(removed.paths, paths)
          const root = (yield* Disks).rootOf(scene.project)
          assert.deepStrictEqual([existsSync(made?.path ?? ""), existsSync(root)], [false, false])
          assert.strictEqual(
            yield* count(
              "select count(*) from plugin_sandbox.runtime_snapshots where project_id = $1::bigint",
              scene.project
            ),
            0
          )
        }),
      60_000
    )

    it.effect(
      "SP-DEL-07 a snapshot that was made behind the preview has to be confirmed, and stays until then",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const { paths } = yield* describeProjectRemoval(scene.project)
          yield* Effect.flatMap(ask(scene, "snapshot"), settled)
          const [made] = yield* (yield* SnapshotRows).ofProject(scene.project)
          yield* admitDeletion(scene, paths)
          const refused = yield* Effect.flip(removeProject(scene.project))
          assert.deepStrictEqual(
            [refused._tag, "paths" in refused ? refused.paths : []],
            ["ConfirmationNeeded", [made?.path]]
          )
          assert.isTrue(existsSync(made?.path ?? ""))
          yield* admitDeletion(scene, [...paths, made?.path ?? ""])
          yield* removeProject(scene.project)
          assert.isFalse(existsSync(made?.path ?? ""))
        })
    )

    it.effect("SP-DEL-05 while a restore is under way the old machine and the new one are named", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        yield* Effect.flatMap(ask(scene, "snapshot"), settled)
        const { guests } = yield* Scripted
        const barrier = hold(guests, "end")
        const restoring = yield* ask(scene, "restore")
        yield* barrier.reached
        const { labels } = yield* describeProjectRemoval(scene.project)
        assert.lengthOf(labels, 3, "the old machine, the new one and the snapshot")
        yield* barrier.release
        assert.strictEqual((yield* settled(restoring)).state, "succeeded")
      })
    )
  })
})
