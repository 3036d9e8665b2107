import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { heartbeatIntervalMillis, nodeUnseenSeconds } from "../../../src/domain/Bounds.ts"
import { NodeId } from "../../../src/domain/Identity.ts"
import { StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import { presenceLoop } from "../../../src/domain/runtimes/nodePresence.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { self } from "../../infra/postgres/operationsFixture.ts"

const node = { id: NodeId.make("00000000-0000-4000-8000-00000000000a"), name: "here" }
const failure = new StorageFailure({
  operation: "registerNode",
  fault: "connection",
  state: null,
  constraint: null
})

/** Beats whose n-th does what the script says, then passes of the interval; answers how often the node was noted. */
const beats = (script: ReadonlyArray<Effect.Effect<void, StorageFailure>>, intervals: number) =>
  Effect.gen(function* () {
    let beat = 0
    const store = Layer.mock(RuntimeStore)({
      process: self,
      registerNode: (given) =>
        Effect.suspend(() => {
          assert.deepStrictEqual(given, node)
          beat += 1
          return script[beat - 1] ?? Effect.void
        })
    })
    yield* Effect.forkScoped(presenceLoop(node).pipe(Effect.provide(store)))
    for (let passed = 0; passed < intervals; passed += 1) yield* TestClock.adjust(heartbeatIntervalMillis)
    return beat
  }).pipe(Effect.scoped)

describe("presenceLoop", () => {
  it.effect("FC-06 the node is noted at once and at every heartbeat, often enough to count as seen", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* beats([], 4), 5)
      assert.isAtLeast(nodeUnseenSeconds * 1_000, 3 * heartbeatIntervalMillis)
    })
  )

  it.effect("FC-06 a beat that fails or never answers costs only itself", () =>
    Effect.gen(function* () {
      assert.isAtLeast(yield* beats([Effect.fail(failure), Effect.never, Effect.fail(failure)], 5), 4)
    })
  )
})
