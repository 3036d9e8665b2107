import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as TestClock from "effect/testing/TestClock"
import * as Files from "node:fs"
import { makeRegistry } from "../../../src/domain/registry/makeRegistry.ts"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import { carryOutHere, type Disk } from "../../../src/infra/filesystem/diskSteps.ts"
import { layer as identifiers } from "../../../src/infra/Identifiers.ts"
import { layer } from "../../../src/infra/filesystem/RegistryFiles.ts"
import {
  lookAt,
  proofOf,
  recordOf,
  type RegistryService,
  roomy,
  sandboxOf,
  temporaryDirectory,
  withDeletion,
  withReason
} from "../../domain/registry/fixture.ts"

/**
 * The real disk, whose flushes wait from now on, and go on when they are taken from the queue and released; at the end
 * of the test all of them do.
 */
const slowDisk = Effect.gen(function* () {
  const flushes = yield* Queue.unbounded<() => void>()
  const held = new Set<() => void>()
  const state = { isSlow: false }
  const carryOut = carryOutHere(Files, (go, call) => {
    if (call !== "fsync" || !state.isSlow) return go()
    const release = (): void => {
      if (held.delete(release)) go()
    }
    held.add(release)
    Queue.offerUnsafe(flushes, release)
  })
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      state.isSlow = false
      for (const release of held) release()
    })
  )
  const disk: Disk = { calls: Files, carryOut }
  return { disk, flushes, state }
})

/** Records 1 and 2, the second of which is to be deleted, on a disk whose every flush waits to be released. */
const slowRegistry = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  const { disk, flushes, state } = yield* slowDisk
  const context = yield* Layer.build(Layer.merge(layer(directory, disk), identifiers))
  const registry = yield* Effect.provideContext(
    Effect.flatMap(openRegistry(), (opened) => makeRegistry(opened, roomy)),
    context
  )
  yield* registry.admit(recordOf(1))
  yield* registry.admit(recordOf(2))
  yield* registry.update(sandboxOf(2), withDeletion)
  state.isSlow = true
  return { directory, flushes, registry, state }
})

const textOf = (records: Iterable<unknown>): ReadonlyArray<string> =>
  [...records].map((record) => JSON.stringify(record)).toSorted()

const mutations: ReadonlyArray<
  readonly [
    name: string,
    flushes: number,
    mutate: (registry: RegistryService) => Effect.Effect<unknown, { readonly _tag: string }>
  ]
> = [
  ["an admission", 2, (registry) => registry.admit(recordOf(3))],
  ["an update", 2, (registry) => registry.update(sandboxOf(1), withReason("slowly"))],
  ["a removal", 1, (registry) => registry.remove(proofOf(sandboxOf(2)))]
]

describe("filesystem/RegistryFiles", () => {
  it.effect.each(mutations)(
    "FC-18 RG-COM-03 RG-COM-05 %s whose every flush takes an hour holds no reader up and closes no latch",
    ([, flushesOfIt, mutate]) =>
      Effect.gen(function* () {
        const { directory, flushes, registry, state } = yield* slowRegistry
        const before = textOf((yield* registry.inventory).values())
        const slow = yield* Effect.forkChild(mutate(registry))
        for (let flush = 0; flush < flushesOfIt; flush += 1) {
          const release = yield* Queue.take(flushes)
          yield* TestClock.adjust("1 hour")
          assert.isUndefined(slow.pollUnsafe())
          assert.deepStrictEqual(textOf((yield* registry.inventory).values()), before)
          assert.strictEqual((yield* registry.get(sandboxOf(1))).statusReason, null)
          assert.strictEqual((yield* registry.charges).sandboxes, 2)
          release()
        }
        yield* Fiber.join(slow)
        const behind = textOf((yield* registry.inventory).values())
        assert.notDeepEqual(behind, before)
        assert.deepStrictEqual(textOf((yield* lookAt(directory)).values()), behind)
        state.isSlow = false
        yield* registry.admit(recordOf(4))
      })
  )
})
