/** What a request on a snapshot is refused with before it is admitted. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { projectSnapshotsMax } from "../../../src/domain/Bounds.ts"
import { SnapshotId } from "../../../src/domain/Identity.ts"
import { refusalOf, requestOperation } from "../../../src/domain/operations/snapshotRequests.ts"
import { keptSnapshot, requestOf, undispatched } from "../removal/fixture.ts"
import { carryOut } from "./actionCases.ts"
import { project } from "./builders.ts"
import { withWorkspace } from "./snapshotFixture.ts"

const id = SnapshotId.make("a")
const many = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ id: SnapshotId.make(`s${at}`), state: "ready" as const }))

describe("refusalOf", () => {
  it.each([
    ["snapshot", [], null],
    ["snapshot", [{ id, state: "ready" }], "snapshot_exists"],
    ["snapshot", [{ id, state: "removing" }], "snapshot_exists"],
    ["snapshot", many(projectSnapshotsMax - 1), null],
    ["snapshot", many(projectSnapshotsMax), "snapshots_full"],
    ["restore", [], "snapshot_not_found"],
    ["restore", [{ id, state: "capturing" }], "snapshot_not_found"],
    ["restore", [{ id, state: "removing" }], "snapshot_not_found"],
    ["restore", [{ id, state: "ready" }], null],
    ["restore", [...many(projectSnapshotsMax), { id, state: "ready" }], null],
    ["start", [], null]
  ] as const)("%s beside %j: %s", (action, snapshots, code) => {
    assert.strictEqual(refusalOf({ action, project }, id, snapshots)?.code ?? null, code)
  })
})

layer(undispatched, { excludeTestServices: true, timeout: "60 seconds" })("requestOperation", (test) => {
  test.effect(
    "SP-ADM-07 a repeated request is answered by its receipt, whatever its snapshot has become",
    () =>
      Effect.gen(function* () {
        const scene = yield* withWorkspace
        const request = requestOf(scene.project, "snapshot")
        const done = yield* carryOut(scene, request)
        const repeated = yield* requestOperation(scene.caller, request)
        assert.deepStrictEqual([repeated.outcome, repeated.operation.id], ["repeated", done.id])
        const another = yield* Effect.flip(
          requestOperation(scene.caller, requestOf(scene.project, "snapshot"))
        )
        assert.strictEqual(another.code, "snapshot_exists")
        const other = { ...request, parameters: { snapshot: SnapshotId.make("other") } }
        const refused = yield* Effect.flip(requestOperation(scene.caller, other))
        assert.strictEqual(refused.code, "request_key_conflict", `it was asked about ${keptSnapshot}`)
      })
  )
})
