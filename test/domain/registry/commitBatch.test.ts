import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Files from "node:fs"
import * as Path from "node:path"
import { makeBatchCommit } from "../../../src/domain/registry/commitBatch.ts"
import { putOf } from "../../../src/domain/registry/commitDecision.ts"
import { makeCommitter } from "../../../src/domain/registry/committer.ts"
import { emptyInventory } from "../../../src/domain/registry/Inventory.ts"
import { NodeId } from "../../../src/domain/Identity.ts"
import { RegistryFiles } from "../../../src/domain/registry/RegistryFiles.ts"
import { layer as identifiers } from "../../../src/infra/Identifiers.ts"
import {
  contentsOf,
  type DiskCall,
  failNext,
  hold,
  lookAt,
  makeDisk,
  openOn,
  proofOf,
  recordOf,
  type RegistryService,
  sandboxOf,
  temporaryDirectory,
  withDeletion,
  withReason
} from "./fixture.ts"

/** A registry with record 1, as it is, and record 2, which is to be deleted. */
const prepared = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  const disk = makeDisk()
  const registry = yield* openOn(directory, { disk })
  yield* registry.admit(recordOf(1))
  yield* registry.admit(recordOf(2))
  yield* registry.update(sandboxOf(2), withDeletion)
  disk.calls.length = 0
  return { directory, disk, registry }
})

const mutations: ReadonlyArray<
  readonly [
    name: string,
    mutate: (registry: RegistryService) => Effect.Effect<unknown, { readonly _tag: string }>
  ]
> = [
  ["admission", (registry) => registry.admit(recordOf(3))],
  ["update", (registry) => registry.update(sandboxOf(1), withReason("changed"))],
  ["removal", (registry) => registry.remove(proofOf(sandboxOf(2)))]
]
const errors = ["EIO", "ENOSPC", "EMFILE", "EACCES"] as const

/** Everybody is refused from now on, and the disk is not asked again. */
const isLatched = Effect.fnUntraced(function* (
  registry: RegistryService,
  disk: ReturnType<typeof makeDisk>,
  directory: string
) {
  const [calls, contents] = [disk.calls.length, contentsOf(directory)]
  for (const access of [
    registry.inventory,
    registry.get(sandboxOf(1)),
    registry.charges,
    registry.admit(recordOf(9)),
    registry.update(sandboxOf(1), withReason("later")),
    registry.remove(proofOf(sandboxOf(2)))
  ]) {
    const refusal = yield* Effect.flip(access as Effect.Effect<unknown, { readonly _tag: string }>)
    assert.strictEqual(refusal._tag, "StorageFailed")
  }
  assert.strictEqual(disk.calls.length, calls)
  assert.deepStrictEqual(contentsOf(directory), contents)
})

describe("registry/commitBatch", () => {
  for (const [name, mutate] of mutations.slice(0, 2)) {
    for (const why of errors) {
      for (const when of ["before", "after"] as const) {
        it.live(
          `RG-COM-05 RG-COM-07 ${why} ${when} the ${name}'s file is synced fails that mutation alone`,
          () =>
            Effect.gen(function* () {
              const { directory, disk, registry } = yield* prepared
              const before = contentsOf(directory)
              failNext(disk, "create", when, why)
              const failure = yield* Effect.flip(mutate(registry))
              assert.strictEqual(failure._tag, "RegistryWriteFailed")
              assert.strictEqual("why" in failure && failure.why, why)
              assert.deepStrictEqual(contentsOf(directory), before)
              assert.strictEqual((yield* registry.inventory).size, 2)
              assert.strictEqual((yield* registry.get(sandboxOf(1))).statusReason, null)
              yield* mutate(registry)
            })
        )
      }
    }
  }

  const uncertain: ReadonlyArray<readonly [mutation: (typeof mutations)[number], call: DiskCall]> = [
    ...mutations.slice(0, 2).map((mutation) => [mutation, "rename"] as const),
    [mutations[2]!, "unlink"],
    ...mutations.map((mutation) => [mutation, "sync"] as const)
  ]
  for (const [[name, mutate], call] of uncertain) {
    for (const when of ["before", "after"] as const) {
      it.live(
        `RG-COM-05 RG-COM-07 a failure ${when} the ${call} of an ${name} closes the latch, and only a restart clears it`,
        () =>
          Effect.gen(function* () {
            const { directory, disk, registry } = yield* prepared
            failNext(disk, call, when)
            assert.strictEqual((yield* Effect.flip(mutate(registry)))._tag, "StorageFailed")
            yield* isLatched(registry, disk, directory)
            const reopened = yield* lookAt(directory)
            // What the disk says counts: each mutation is there or not, whole.
            const happened = call === "sync" || when === "after"
            assert.strictEqual(reopened.has(sandboxOf(3)), name === "admission" && happened)
            assert.strictEqual(
              reopened.get(sandboxOf(1))?.statusReason,
              name === "update" && happened ? "changed" : null
            )
            assert.strictEqual(reopened.has(sandboxOf(2)), !(name === "removal" && happened))
          })
      )
    }
  }

  /** Three mutations in one batch, behind a leader that is held; the fault is for the batch. */
  const inOneBatch = Effect.fnUntraced(function* (
    registry: RegistryService,
    disk: ReturnType<typeof makeDisk>,
    fail: () => void
  ) {
    const sync = hold(disk, "sync")
    const leader = yield* Effect.forkChild(registry.admit(recordOf(10)))
    yield* sync.reached
    fail()
    const batch = yield* Effect.forEach([11, 12, 13], (number) =>
      Effect.forkChild(Effect.result(registry.admit(recordOf(number))))
    )
    yield* Effect.yieldNow
    yield* sync.release
    yield* Fiber.join(leader)
    return yield* Effect.forEach(batch, (fiber) => Fiber.join(fiber))
  })

  it.live("RG-COM-05 a record of a batch that cannot be written fails alone; the others are committed", () =>
    Effect.gen(function* () {
      const { directory, disk, registry } = yield* prepared
      const answers = yield* inOneBatch(registry, disk, () => failNext(disk, "create", "before", "ENOSPC"))
      const failures = answers.filter(Result.isFailure).map(({ failure }) => failure)
      assert.deepStrictEqual(
        failures.map(({ _tag }) => _tag),
        ["RegistryWriteFailed"]
      )
      const reopened = yield* lookAt(directory)
      const failed = failures.map((failure) => "sandbox" in failure && failure.sandbox)
      for (const number of [11, 12, 13]) {
        const sandbox = sandboxOf(number)
        assert.strictEqual(reopened.has(sandbox), !failed.includes(sandbox))
        assert.strictEqual((yield* registry.inventory).has(sandbox), !failed.includes(sandbox))
      }
      assert.isFalse(
        Files.readdirSync(Path.join(directory, "records")).some((name) => name.startsWith(".record-"))
      )
    })
  )

  it.live(
    "RG-COM-05 a rename that fails makes its whole batch uncertain, the one before and the one after it too",
    () =>
      Effect.gen(function* () {
        const { directory, disk, registry } = yield* prepared
        const answers = yield* inOneBatch(registry, disk, () =>
          failNext(disk, "rename", "before", "EIO", new RegExp(sandboxOf(12)))
        )
        for (const answer of answers) {
          assert.strictEqual(Result.isFailure(answer) && answer.failure._tag, "StorageFailed")
        }
        yield* isLatched(registry, disk, directory)
        const reopened = yield* lookAt(directory)
        assert.deepStrictEqual(
          [10, 11, 12, 13].map((number) => reopened.has(sandboxOf(number))),
          [true, true, false, false]
        )
      })
  )

  it.live("RG-COM-05 those who wait while the latch closes are refused too, and none of them hangs", () =>
    Effect.gen(function* () {
      const { directory, disk, registry } = yield* prepared
      const sync = hold(disk, "sync")
      failNext(disk, "sync")
      const leader = yield* Effect.forkChild(Effect.flip(registry.admit(recordOf(10))))
      yield* sync.reached
      const waiting = yield* Effect.forEach([1, 1, 1], (number) =>
        Effect.forkChild(Effect.flip(registry.update(sandboxOf(number), withReason("waits"))))
      )
      yield* Effect.yieldNow
      yield* sync.release
      assert.strictEqual((yield* Fiber.join(leader))._tag, "StorageFailed")
      for (const fiber of waiting) assert.strictEqual((yield* Fiber.join(fiber))._tag, "StorageFailed")
      yield* isLatched(registry, disk, directory)
    })
  )

  it.live(
    "RG-COM-05 a mistake of ours in the middle of a commit closes the latch instead of leaving callers waiting",
    () =>
      Effect.gen(function* () {
        const broken = RegistryFiles.of({
          carryOut: () => Effect.die(new Error("a mistake"))
          // What a commit calls; anything else would end the test by itself.
        } as unknown as RegistryFiles["Service"])
        const owner = NodeId.make("00000000-0000-4000-8000-000000000000")
        const provided = <A, E>(make: Effect.Effect<A, E, RegistryFiles | Effect.Services<typeof needs>>) =>
          make.pipe(Effect.provideService(RegistryFiles, broken), Effect.provide(identifiers))
        const needs = makeBatchCommit(owner, emptyInventory)
        const committer = yield* provided(makeCommitter(owner, emptyInventory))
        const admit = committer.mutate(sandboxOf(1), () => Result.succeed(putOf(recordOf(1))))
        assert.strictEqual((yield* Effect.flip(admit))._tag, "StorageFailed")
        assert.strictEqual((yield* Effect.flip(admit))._tag, "StorageFailed")
        assert.isNotNull(committer.failure())
      })
  )

  it.live("a long queue of changes that write nothing is answered without growing the stack", () =>
    Effect.gen(function* () {
      const { registry } = yield* prepared
      yield* Effect.all(
        Array.from({ length: 5_000 }, () => registry.update(sandboxOf(1), withReason(null))),
        { concurrency: "unbounded", discard: true }
      )
    })
  )
})
