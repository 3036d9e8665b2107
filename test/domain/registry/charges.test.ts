import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { NodeId } from "../../../src/domain/Identity.ts"
import {
  bytesOf,
  fitsBudget,
  fitsCapacity,
  headerBytesOf,
  recordBytes
} from "../../../src/domain/registry/charges.ts"
import {
  chargesOf,
  emptyInventory,
  type Inventory,
  inventoryOf,
  InventoryView,
  withoutRecord,
  withRecord
} from "../../../src/domain/registry/Inventory.ts"
import { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { CapacityExceeded, RegistryFull } from "../../../src/domain/registry/Registry.ts"
import {
  lookAt,
  openOn,
  proofOf,
  recordOf,
  roomy,
  sandboxOf,
  temporaryDirectory,
  withDeletion
} from "./fixture.ts"
import * as Schema from "effect/Schema"

const owner = NodeId.make("00000000-0000-4000-8000-000000000000")

/** The snapshot of version 1, written out; nothing of the product's accounting is in it. */
const snapshotOf = (node: string, records: Iterable<SandboxRecord>): Buffer =>
  Buffer.from(
    JSON.stringify({
      version: 1,
      owner: node,
      sandboxes: Object.fromEntries(Array.from(records, (record) => [record.id, record]))
    })
  )

const Step = Schema.Union([
  Schema.TaggedStruct("Put", {
    sandbox: Schema.Literals([1, 2, 3, 4]),
    reason: Schema.String,
    cpuMillis: Schema.Literals([1, 70, 900])
  }),
  Schema.TaggedStruct("Remove", { sandbox: Schema.Literals([1, 2, 3, 4]) }),
  Schema.TaggedStruct("Reopen", {})
])
const steps = Arbitrary.array(Arbitrary.schema(Step), { maxLength: 24 })

const retained = (record: SandboxRecord) => ({
  record,
  bytes: recordBytes(record.id, JSON.stringify(record))
})
const sumOver = (records: ReadonlyArray<SandboxRecord>, field: "cpuMillis" | "memoryBytes") =>
  records.reduce((sum, record) => sum + record[field], 0)

describe("registry/charges", () => {
  it.prop(
    "RG-BUD-02 FC-16 after any history of puts and removals the kept totals equal the sums over the records",
    { history: steps },
    ({ history }) => {
      const model = new Map<number, SandboxRecord>()
      let inventory: Inventory = emptyInventory
      for (const step of history) {
        if (step._tag === "Put") {
          const { cpuMillis, reason: statusReason } = step
          const record = recordOf(step.sandbox, { statusReason, cpuMillis, memoryBytes: cpuMillis * 3 })
          model.set(step.sandbox, record)
          inventory = withRecord(inventory, retained(record))
        } else if (step._tag === "Remove") {
          model.delete(step.sandbox)
          inventory = withoutRecord(inventory, sandboxOf(step.sandbox))
        } else {
          inventory = inventoryOf(new InventoryView(inventory).values())
        }
        const records = [...model.values()]
        assert.deepStrictEqual(chargesOf(inventory, headerBytesOf(owner)), {
          sandboxes: model.size,
          cpuMillis: sumOver(records, "cpuMillis"),
          memoryBytes: sumOver(records, "memoryBytes"),
          snapshotBytes: snapshotOf(owner, records).length
        })
      }
    },
    { arbitrary: { runs: 300 } }
  )

  it.prop("the length of a text is counted in bytes of UTF-8", { text: Schema.String }, ({ text }) => {
    assert.strictEqual(bytesOf(text), Buffer.byteLength(text))
  })

  it.live.prop(
    "RG-BUD-01 RG-COM-01 random histories of a real registry agree with a plain model, over restarts too",
    { history: steps },
    ({ history }) =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const model = new Map<string, SandboxRecord>()
        let registry = yield* openOn(directory)
        for (const step of history) {
          if (step._tag === "Reopen") {
            registry = yield* openOn(directory)
          } else if (step._tag === "Remove") {
            const sandbox = sandboxOf(step.sandbox)
            if (model.has(sandbox)) yield* registry.update(sandbox, withDeletion)
            const answer = yield* Effect.result(registry.remove(proofOf(sandbox)))
            assert.strictEqual(Result.isSuccess(answer), model.delete(sandbox))
          } else {
            const record = recordOf(step.sandbox, { statusReason: step.reason })
            if (model.has(record.id)) {
              yield* registry.update(record.id, (former) =>
                Result.succeed(new SandboxRecord({ ...former, statusReason: step.reason }))
              )
            } else {
              yield* registry.admit(record)
            }
            model.set(record.id, record)
          }
          const inventory = yield* registry.inventory
          assert.deepStrictEqual(
            new Map(Array.from(inventory, ([id, record]) => [String(id), { ...record }])),
            new Map(Array.from(model, ([id, record]) => [id, { ...record }]))
          )
          const charges = yield* registry.charges
          assert.strictEqual(charges.snapshotBytes, snapshotOf(registry.node, model.values()).length)
          assert.strictEqual(charges.sandboxes, model.size)
        }
        assert.strictEqual((yield* lookAt(directory)).size, model.size)
      }),
    { arbitrary: { runs: 40 }, timeout: 60_000 }
  )

  it("RG-BUD-04 the first resource that is short is named, with what is used, needed and allowed", () => {
    const used = { sandboxes: 2, cpuMillis: 500, memoryBytes: 100, snapshotBytes: 0 }
    const needed = { sandboxes: 1, cpuMillis: 501, memoryBytes: 901 }
    const capacity = { sandboxes: 3, cpuMillis: 1_000, memoryBytes: 1_000 }
    assert.deepStrictEqual(
      fitsCapacity(used, needed, capacity),
      Result.fail(new CapacityExceeded({ resource: "cpuMillis", used: 500, needed: 501, limit: 1_000 }))
    )
    assert.isTrue(
      Result.isSuccess(fitsCapacity(used, { ...needed, cpuMillis: 500, memoryBytes: 900 }, capacity))
    )
    assert.isTrue(Result.isSuccess(fitsCapacity(used, needed, roomy)))
  })

  it("RG-BUD-03 a snapshot may grow up to the limit itself, and may always shrink", () => {
    assert.isTrue(Result.isSuccess(fitsBudget(90, 10, 100)))
    assert.deepStrictEqual(
      fitsBudget(90, 11, 100),
      Result.fail(new RegistryFull({ usedBytes: 90, neededBytes: 11, limitBytes: 100 }))
    )
    assert.isTrue(Result.isSuccess(fitsBudget(200, -1, 100)))
  })

  it("an inventory's view is a map that keeps its state while the inventory goes on", () => {
    const inventory = inventoryOf([recordOf(1), recordOf(2)])
    const view = new InventoryView(inventory)
    withRecord(inventory, retained(recordOf(3)))
    const seen: Array<string> = []
    view.forEach((record, sandbox) => seen.push(`${sandbox === record.id}`))
    assert.deepStrictEqual([view.size, view.has(sandboxOf(3)), seen], [2, false, ["true", "true"]])
    assert.deepStrictEqual(new Map(view), new Map([...view.keys()].map((id) => [id, view.get(id)!])))
  })
})
