/** The end of a snapshot: who may, what refuses it, and what is left to read. */
import { existsSync } from "node:fs"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { RuntimeLog } from "../../../src/domain/history/RuntimeLog.ts"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import { AccountId } from "../../../src/domain/Identity.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { removeSnapshot } from "../../../src/domain/operations/snapshotRemoval.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { admitDeletion, keptSnapshot, requestOf, undispatched } from "../removal/fixture.ts"
import { carryOut, claim, receiptOf } from "./actionCases.ts"
import { leftOf, snapshotOf, snapshotsOf, withWorkspace } from "./snapshotFixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const withSnapshot = Effect.gen(function* () {
  const scene = yield* withWorkspace
  yield* carryOut(scene, requestOf(scene.project, "snapshot"))
  return { ...scene, made: Option.getOrThrow(yield* snapshotOf(scene)) }
})

describe("operations/snapshotRemoval", () => {
  layer(
    undispatched,
    live
  )((it) => {
    it.effect(
      "FC-22 SP-TX-08 a removed snapshot leaves nothing on the disk, and the log tells who and why",
      () =>
        Effect.gen(function* () {
          const { caller, made, project } = yield* withSnapshot
          yield* removeSnapshot(caller, { project, id: keptSnapshot })
          assert.deepStrictEqual([yield* snapshotsOf({ caller, project }), leftOf(made.path)], [[], []])
          const lines = (yield* (yield* RuntimeLog).newest(project, 10)).map(({ line }) => line)
          assert.include(lines, `snapshot kept is removed: it was asked for (${caller.account})`)
          const again = yield* Effect.flip(removeSnapshot(caller, { project, id: keptSnapshot }))
          assert.strictEqual(again.code, "snapshot_not_found")
        })
    )

    it.effect("a snapshot that is being restored is not removed, and one that is going is not restored", () =>
      Effect.gen(function* () {
        const { caller, made, project } = yield* withSnapshot
        const request = requestOf(project, "restore")
        const { operation } = yield* admitOperation(caller, request)
        const refused = yield* Effect.flip(removeSnapshot(caller, { project, id: keptSnapshot }))
        assert.deepInclude(refused, { code: "operation_in_progress", operation: operation.id })
        assert.isTrue(existsSync(made.path))
        yield* executeClaimed(yield* claim)
        assert.strictEqual((yield* receiptOf(operation.id)).state, "succeeded")
        yield* removeSnapshot(caller, { project, id: keptSnapshot })
        const late = yield* carryOut({ caller, project }, requestOf(project, "restore"))
        assert.strictEqual(late.errorCode, "snapshot_not_found")
      })
    )

    it.effect(
      "SP-ADM-01 SP-ADM-04 no snapshot is removed for a stranger, or in a Project that is being deleted",
      () =>
        Effect.gen(function* () {
          const { caller, made, project } = yield* withSnapshot
          const stranger = new Caller({
            ...caller,
            account: AccountId.make("00000000-0000-4000-8000-0000000000ff"),
            administrator: false
          })
          const refused = yield* Effect.flip(removeSnapshot(stranger, { project, id: keptSnapshot }))
          assert.strictEqual(refused.code, "access_refused")
          const { paths } = yield* describeProjectRemoval(project)
          yield* admitDeletion({ caller, project }, paths)
          const late = yield* Effect.flip(removeSnapshot(caller, { project, id: keptSnapshot }))
          assert.strictEqual(late.code, "project_not_active")
          assert.strictEqual(Option.getOrThrow(yield* snapshotOf({ caller, project })).state, "ready")
          assert.isTrue(existsSync(made.path))
        })
    )
  })
})
