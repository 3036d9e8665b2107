/** Bringing a machine up over scripted guests, and what becomes of it when a step fails. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { countCalls, failNext, type ScriptedCall } from "../../../src/infra/guests/scriptedState.ts"
import { Clone } from "../../support/clone.ts"
import { fixture, ask, newProject, provisioned, Scripted, settled } from "../removal/fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const observed = (project: Parameters<RuntimeStore["Service"]["runtime"]>[0]) =>
  Effect.flatMap(RuntimeStore, (store) =>
    Effect.map(store.runtime(project), (runtime) => Option.getOrThrow(runtime))
  )

describe("operations/startSteps", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "BX-01 the recipe is durable, marked as being made, before the node's registry hears of the machine",
      () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const { guests } = yield* Scripted
          failNext(guests, "start")
          const failed = yield* Effect.flatMap(ask(scene, "provision"), settled)
          assert.strictEqual(failed.state, "failed")
          assert.include(failed.flags, "creating")
          const sandbox = failed.newRecipe?.sandbox
          const records = yield* (yield* Registry).inventory
          assert.strictEqual(records.get(sandbox!)?.status, "Failed", "a failed launch stays charged")
          const runtime = yield* observed(scene.project)
          assert.deepStrictEqual([runtime.observed, runtime.sandbox], ["failed", sandbox])
          const again = yield* Effect.flatMap(ask(scene, "start"), settled)
          assert.strictEqual(again.state, "succeeded", again.errorText ?? "")
          assert.strictEqual(
            (yield* observed(scene.project)).sandbox,
            sandbox,
            "the same machine, not another one"
          )
        })
    )

    const lateFaults: ReadonlyArray<ScriptedCall> = ["inspect", "start", "execute"]
    for (const call of lateFaults) {
      it.effect(
        `a ${call} whose answer is lost fails the start, and the next start adopts the one guest there is`,
        () =>
          Effect.gen(function* () {
            const scene = yield* provisioned
            const { guests } = yield* Scripted
            yield* Effect.flatMap(ask(scene, "stop"), settled)
            failNext(guests, call, "after")
            assert.strictEqual((yield* Effect.flatMap(ask(scene, "start"), settled)).state, "failed")
            assert.strictEqual((yield* Effect.flatMap(ask(scene, "start"), settled)).state, "succeeded")
            const sandbox = scene.operation.newRecipe!.sandbox
            const alive = [...guests.guests.values()].filter(
              ({ isAlive, spec }) => isAlive && spec.sandbox === sandbox
            )
            assert.lengthOf(alive, 1)
          })
      )
    }

    it.effect("nobody ever sees a machine that is wanted running and still said to be stopped", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        yield* Effect.flatMap(ask(scene, "stop"), settled)
        const { admin } = yield* Clone
        yield* admin("create table plugin_sandbox.seen (place serial, states text)")
        yield* admin(`create function plugin_sandbox.note() returns trigger language plpgsql as $$ begin
          insert into plugin_sandbox.seen (states) values (new.desired || ' ' || new.observed); return null; end $$`)
        yield* admin(`create trigger noted after update on plugin_sandbox.runtimes
          for each row when (new.project_id = ${scene.project}) execute function plugin_sandbox.note()`)
        yield* Effect.flatMap(ask(scene, "start"), settled)
        const seen = yield* admin("select states from plugin_sandbox.seen order by place")
        assert.deepStrictEqual(
          [...new Set(seen.map(({ states }) => states))],
          ["running starting", "running running"]
        )
      })
    )

    it.effect("a start on a running machine starts nothing and succeeds", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const { guests } = yield* Scripted
        const sandbox = scene.operation.newRecipe!.sandbox
        const before = guests.guests.get(sandbox)?.identity
        assert.strictEqual((yield* Effect.flatMap(ask(scene, "start"), settled)).state, "succeeded")
        assert.deepStrictEqual(guests.guests.get(sandbox)?.identity, before)
        assert.strictEqual(countCalls(guests, "start", sandbox), 1)
      })
    )
  })
})
