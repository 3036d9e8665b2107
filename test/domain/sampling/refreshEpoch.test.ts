/** When samples under way become stale: each end of an operation that changed the machine, with scripted guests. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { ProjectId } from "../../../src/domain/Identity.ts"
import { stopSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { reconcileRuntimes } from "../../../src/domain/runtimes/reconciliation.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { recordSample } from "../../../src/domain/sampling/refresh.ts"
import { Clone } from "../../support/clone.ts"
import { ask, fixture, provisioned, settled } from "../removal/fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const runtimeOf = (project: ProjectId) =>
  Effect.flatMap(RuntimeStore, (store) => Effect.map(store.runtime(project), Option.getOrThrow))

/** A sample that a sampler begins now: what it read of the runtime is what it is recorded under. */
const beginSample = Effect.fnUntraced(function* (project: ProjectId) {
  const { generation, refreshEpoch } = yield* runtimeOf(project)
  const [row] = yield* (yield* Clone).admin("select (extract(epoch from now()) * 1000)::float8 as millis")
  const startedAtMillis = Math.floor(Number(row?.["millis"]))
  return recordSample(project, {
    generation,
    refreshEpoch,
    startedAtMillis,
    nowMillis: startedAtMillis,
    values: { pids: 3 }
  })
})

describe("refresh epoch", () => {
  layer(
    fixture,
    live
  )((it) => {
    for (const action of ["stop", "start"] as const) {
      it.effect(`SP-RES-04 a sample begun before a ${action} and handed in after it writes nothing`, () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          if (action === "start") yield* Effect.flatMap(ask(scene, "stop"), settled)
          const late = yield* beginSample(scene.project)
          assert.strictEqual((yield* Effect.flatMap(ask(scene, action), settled)).state, "succeeded")
          assert.strictEqual((yield* Effect.flip(late))._tag, "SampleStale")
          yield* Effect.flatten(beginSample(scene.project))
        })
      )
    }

    it.effect(
      "SP-RES-04 a sample begun before its guest was found ended by the reconciler writes nothing",
      () =>
        Effect.gen(function* () {
          const { operation, project } = yield* provisioned
          const late = yield* beginSample(project)
          yield* stopSandbox(operation.newRecipe!.sandbox, { graceMillis: 0 })
          yield* reconcileRuntimes(() => false)
          assert.strictEqual((yield* runtimeOf(project)).observed, "stopped")
          assert.strictEqual((yield* Effect.flip(late))._tag, "SampleStale")
        })
    )
  })
})
