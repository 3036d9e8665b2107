/** What the API shows of a snapshot. That a real daemon answers it is shown in layers/daemonSnapshots.test.ts. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { Snapshot } from "../../../src/domain/runtimes/SnapshotRows.ts"
import { snapshotView } from "../../../src/infra/http/present.ts"
import { canary, storedOperation } from "./storedOperation.ts"

const { newRecipe } = storedOperation()

const stored = new Snapshot({
  ...Schema.decodeUnknownSync(Schema.Struct({ project: Snapshot.fields.project, id: Snapshot.fields.id }))({
    project: 7,
    id: "before-upgrade"
  }),
  rowId: 1,
  path: `/disks/${canary}`,
  bytes: 4_096,
  generation: newRecipe!.generation,
  recipe: newRecipe!,
  state: "removing",
  operation: storedOperation().id,
  account: null,
  pausedBy: `daemon/${canary}`,
  removedBy: canary,
  reason: canary,
  createdAtMillis: 1_000
})

describe("snapshotHandlers", () => {
  it("FC-21 a snapshot is shown without its path, its recipe and whoever holds its guest", () => {
    const shown = snapshotView(stored)
    assert.deepStrictEqual(shown, {
      id: stored.id,
      state: "removing",
      bytes: 4_096,
      generation: stored.generation,
      operation: stored.operation,
      createdAtMillis: 1_000
    })
    assert.notInclude(JSON.stringify(shown), canary)
  })
})
