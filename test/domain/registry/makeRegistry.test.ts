import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Files from "node:fs"
import * as Path from "node:path"
import { Generation } from "../../../src/domain/Identity.ts"
import { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { SandboxStateRefused } from "../../../src/domain/registry/Registry.ts"
import {
  contentsOf,
  hold,
  lookAt,
  freshRegistry,
  proofOf,
  recordOf,
  sandboxOf,
  withDeletion,
  withReason
} from "./fixture.ts"

const bytesOfSnapshot = (owner: string, records: Iterable<SandboxRecord>): number =>
  Buffer.byteLength(
    JSON.stringify({
      version: 1,
      owner,
      sandboxes: Object.fromEntries(Array.from(records, (record) => [record.id, record]))
    })
  )

describe("registry/makeRegistry", () => {
  it.live("RG-REC-01 everything of a record survives a restart, byte for byte", () =>
    Effect.gen(function* () {
      const { directory, registry } = yield* freshRegistry()
      const record = recordOf(1, {
        environment: { ключ: 'värde\n\u0007"\\', EMPTY: "" },
        metadata: { "𝄞": "🎼" },
        disk: "/disks/1",
        status: "Failed",
        statusReason: "lost",
        deletion: { reason: "expired", actor: "node", requestedAtMillis: 5 }
      })
      yield* registry.admit(record)
      assert.deepStrictEqual({ ...(yield* lookAt(directory)).get(record.id)! }, { ...record })
    })
  )

  it.live(
    "RG-COM-01 a put is create, rename and one sync of records/; a removal is unlink and one sync",
    () =>
      Effect.gen(function* () {
        const { directory, disk, registry } = yield* freshRegistry()
        const [header, meta] = ["sandboxes.json", "records/meta.json"].map((name) => () => {
          const { ino, mtimeNs } = Files.statSync(Path.join(directory, name), { bigint: true })
          return `${ino} ${mtimeNs}`
        }) as [() => string, () => string]
        const before = [header(), meta()]
        yield* registry.admit(recordOf(1))
        yield* registry.update(sandboxOf(1), withDeletion)
        yield* registry.remove(proofOf(sandboxOf(1)))
        const file = `${sandboxOf(1)}.json`
        const put = ["create records/.record-*", `rename records/.record-* ${file}`, "sync records"]
        assert.deepStrictEqual(
          disk.calls.map((call) => call.replace(/\.record-[0-9a-f-]{36}/, ".record-*")),
          [...put, ...put, `unlink records/${file}`, "sync records"]
        )
        assert.deepStrictEqual([header(), meta()], before)
      })
  )

  it.live("RG-COM-01 a mutation serializes no record but its own, however many there are", () =>
    Effect.gen(function* () {
      const { registry } = yield* freshRegistry()
      for (let number = 1; number <= 50; number += 1) yield* registry.admit(recordOf(number))
      const stringify = JSON.stringify
      const serialized: Array<unknown> = []
      JSON.stringify = (value: unknown) => {
        serialized.push(value)
        return stringify(value)
      }
      yield* registry
        .update(sandboxOf(7), withReason("changed"))
        .pipe(Effect.ensuring(Effect.sync(() => (JSON.stringify = stringify))))
      assert.isAtLeast(serialized.length, 1)
      for (const value of serialized) {
        assert.instanceOf(value, SandboxRecord)
        assert.strictEqual((value as SandboxRecord).id, sandboxOf(7))
      }
    })
  )

  it.live("RG-COM-02 memory changes only after the directory has been synced", () =>
    Effect.gen(function* () {
      const { directory, disk, registry } = yield* freshRegistry()
      const sync = hold(disk, "sync")
      const admission = yield* Effect.forkChild(registry.admit(recordOf(1)))
      yield* sync.reached
      assert.isTrue(Files.existsSync(Path.join(directory, `records/${sandboxOf(1)}.json`)))
      assert.strictEqual((yield* registry.inventory).size, 0)
      assert.strictEqual((yield* registry.charges).sandboxes, 0)
      yield* sync.release
      yield* Fiber.join(admission)
      assert.strictEqual((yield* registry.inventory).size, 1)
    })
  )

  it.live(
    "RG-BUD-03 a mutation that would pass the budget is refused and changes nothing; one that just fits is made",
    () =>
      Effect.gen(function* () {
        const owner = "00000000-0000-4000-8000-000000000000"
        const budgetBytes = bytesOfSnapshot(owner, [recordOf(1), recordOf(2)])
        const { directory, registry } = yield* freshRegistry({ budgetBytes })
        yield* registry.admit(recordOf(1))
        const before = contentsOf(directory)
        const tooLong = recordOf(2, { statusReason: "€" })
        const refusal = yield* Effect.flip(registry.admit(tooLong))
        assert.strictEqual(refusal._tag, "RegistryFull")
        assert.deepInclude(refusal, {
          usedBytes: bytesOfSnapshot(owner, [recordOf(1)]),
          // A comma and null less, two quotes and three bytes more.
          neededBytes: budgetBytes - bytesOfSnapshot(owner, [recordOf(1)]) + 1,
          limitBytes: budgetBytes
        })
        assert.deepStrictEqual(contentsOf(directory), before)
        yield* registry.admit(recordOf(2))
        assert.strictEqual((yield* registry.charges).snapshotBytes, budgetBytes)
        const grown = yield* Effect.flip(registry.update(sandboxOf(1), withReason("12345")))
        assert.strictEqual(grown._tag, "RegistryFull")
        assert.strictEqual((yield* registry.get(sandboxOf(1))).statusReason, null)
        yield* registry.update(sandboxOf(1), withReason("12"))
        assert.strictEqual((yield* registry.charges).snapshotBytes, budgetBytes)
      })
  )

  it.live("RG-BUD-03 the first record of a registry may fill the budget to the byte", () =>
    Effect.gen(function* () {
      const budgetBytes = bytesOfSnapshot("00000000-0000-4000-8000-000000000000", [recordOf(1)])
      const tight = yield* freshRegistry({ budgetBytes: budgetBytes - 1 })
      assert.strictEqual((yield* Effect.flip(tight.registry.admit(recordOf(1))))._tag, "RegistryFull")
      const { registry } = yield* freshRegistry({ budgetBytes })
      yield* registry.admit(recordOf(1))
    })
  )

  it.live("RG-BUD-03 what a record shrinks by is not given out before it is durable", () =>
    Effect.gen(function* () {
      const long = recordOf(1, { statusReason: "x".repeat(5_000) })
      const budgetBytes = bytesOfSnapshot("00000000-0000-4000-8000-000000000000", [long]) + 100
      const { disk, registry } = yield* freshRegistry({ budgetBytes })
      yield* registry.admit(long)
      const create = hold(disk, "create")
      // The leader of a batch of its own, so that the next two share one.
      const leader = yield* Effect.forkChild(registry.update(sandboxOf(1), withReason("x".repeat(4_999))))
      yield* create.reached
      const shrink = yield* Effect.forkChild(registry.update(sandboxOf(1), withReason(null)))
      const admission = yield* Effect.forkChild(Effect.result(registry.admit(recordOf(2))))
      yield* Effect.yieldNow
      yield* create.release
      yield* Fiber.joinAll([leader, shrink])
      const refused = yield* Fiber.join(admission)
      assert.strictEqual(Result.isFailure(refused) && refused.failure._tag, "RegistryFull")
      yield* registry.admit(recordOf(2))
    })
  )

  it.live.each([
    ["sandboxes", { sandboxes: 1, cpuMillis: 9_999, memoryBytes: 1e9 }],
    ["cpuMillis", { sandboxes: 9, cpuMillis: 199, memoryBytes: 1e9 }],
    ["memoryBytes", { sandboxes: 9, cpuMillis: 9_999, memoryBytes: 2_047 }]
  ] as const)(
    "RG-BUD-04 %s are charged at admission and come back only with the removal",
    ([resource, capacity]) =>
      Effect.gen(function* () {
        const { directory, disk, registry } = yield* freshRegistry({ capacity })
        yield* registry.admit(recordOf(1))
        disk.calls.length = 0
        const refusedNow = Effect.gen(function* () {
          const refusal = yield* Effect.flip(registry.admit(recordOf(2)))
          assert.strictEqual(refusal._tag, "CapacityExceeded")
          assert.strictEqual("resource" in refusal && refusal.resource, resource)
        })
        yield* refusedNow
        assert.deepStrictEqual(disk.calls, [])
        for (const status of ["Terminated", "Failed"] as const) {
          yield* registry.update(sandboxOf(1), (record) =>
            Result.succeed(new SandboxRecord({ ...record, status }))
          )
          yield* refusedNow
        }
        yield* registry.update(sandboxOf(1), withDeletion)
        yield* refusedNow
        yield* registry.remove(proofOf(sandboxOf(1)))
        yield* registry.admit(recordOf(2))
        assert.deepInclude(yield* registry.charges, { sandboxes: 1, cpuMillis: 100, memoryBytes: 1_024 })
        assert.strictEqual((yield* lookAt(directory)).size, 1)
      })
  )

  it.live("RG-BUD-04 a removal frees its place only for a later batch", () =>
    Effect.gen(function* () {
      const { disk, registry } = yield* freshRegistry({
        capacity: { sandboxes: 2, cpuMillis: 9_999, memoryBytes: 1e9 }
      })
      yield* registry.admit(recordOf(1))
      yield* registry.admit(recordOf(2, { deletion: { reason: "user", actor: "", requestedAtMillis: 0 } }))
      const create = hold(disk, "create")
      const leader = yield* Effect.forkChild(registry.update(sandboxOf(1), withReason("leads")))
      yield* create.reached
      const removal = yield* Effect.forkChild(registry.remove(proofOf(sandboxOf(2))))
      const admission = yield* Effect.forkChild(Effect.result(registry.admit(recordOf(3))))
      yield* Effect.yieldNow
      yield* create.release
      yield* Fiber.joinAll([leader, removal])
      const refused = yield* Fiber.join(admission)
      assert.strictEqual(Result.isFailure(refused) && refused.failure._tag, "CapacityExceeded")
    })
  )

  it.live("RG-DEL-01 a removal is refused without a durable intent, and by an older generation's proof", () =>
    Effect.gen(function* () {
      const { disk, registry } = yield* freshRegistry()
      yield* registry.admit(recordOf(1, { generation: Generation.make(2) }))
      disk.calls.length = 0
      const withoutIntent = yield* Effect.flip(registry.remove(proofOf(sandboxOf(1), 2)))
      assert.strictEqual(withoutIntent._tag, "SandboxStateRefused")
      assert.deepStrictEqual(disk.calls, [])
      yield* registry.update(sandboxOf(1), withDeletion)
      const older = yield* Effect.flip(registry.remove(proofOf(sandboxOf(1), 1)))
      assert.strictEqual(older._tag, "SandboxStateRefused")
      const unknown = yield* Effect.flip(registry.remove(proofOf(sandboxOf(9), 2)))
      assert.strictEqual(unknown._tag, "SandboxNotFound")
      assert.strictEqual((yield* registry.charges).sandboxes, 1)
      yield* registry.remove(proofOf(sandboxOf(1), 2))
      assert.strictEqual((yield* registry.charges).sandboxes, 0)
    })
  )

  it.live("RG-COM-01 a change of as many bytes as before is written too", () =>
    Effect.gen(function* () {
      const { directory, registry } = yield* freshRegistry()
      yield* registry.admit(recordOf(1))
      for (const reason of ["one", "two"]) yield* registry.update(sandboxOf(1), withReason(reason))
      assert.strictEqual((yield* registry.get(sandboxOf(1))).statusReason, "two")
      assert.strictEqual((yield* lookAt(directory)).get(sandboxOf(1))?.statusReason, "two")
    })
  )

  it.live("a change that is refused or changes nothing writes nothing", () =>
    Effect.gen(function* () {
      const { disk, registry } = yield* freshRegistry()
      yield* registry.admit(recordOf(1))
      disk.calls.length = 0
      const refusal = new SandboxStateRefused({ sandbox: sandboxOf(1), status: "Pending", wanted: "nothing" })
      assert.strictEqual(
        yield* Effect.flip(registry.update(sandboxOf(1), () => Result.fail(refusal))),
        refusal
      )
      yield* registry.update(sandboxOf(1), (record) => Result.succeed(new SandboxRecord({ ...record })))
      assert.strictEqual((yield* Effect.flip(registry.admit(recordOf(1))))._tag, "SandboxIdTaken")
      assert.strictEqual(
        (yield* Effect.flip(registry.update(sandboxOf(2), withReason(""))))._tag,
        "SandboxNotFound"
      )
      assert.deepStrictEqual(disk.calls, [])
    })
  )

  it.live.each([
    ["id", { id: sandboxOf(2) }],
    ["token", { endpointToken: "f".repeat(64) }],
    ["reservation of CPU", { cpuMillis: 1 }],
    ["reservation of memory", { memoryBytes: 1 }],
    ["generation downwards", { generation: Generation.make(1) }],
    ["deletion intent", { deletion: null }]
  ] as const)(
    "RG-BUD-04 a change that takes back the %s is a defect of its caller and of nobody else",
    ([, fields]) =>
      Effect.gen(function* () {
        const { disk, registry } = yield* freshRegistry()
        yield* registry.admit(recordOf(1, { generation: Generation.make(2) }))
        yield* registry.update(sandboxOf(1), withDeletion)
        disk.calls.length = 0
        const exit = yield* Effect.exit(
          registry.update(sandboxOf(1), (record) =>
            Result.succeed(new SandboxRecord({ ...record, ...fields }))
          )
        )
        assert.strictEqual(exit._tag === "Failure" && exit.cause.reasons[0]?._tag, "Die")
        assert.deepStrictEqual(disk.calls, [])
        yield* registry.admit(recordOf(3))
      })
  )
})
