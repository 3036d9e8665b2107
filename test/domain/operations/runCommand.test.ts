/** What is left of a command's lease where the guest did not carry it out; over scripted guests, on a clone. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { ExecutionEvent } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestStateRefused, GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import type { ProjectId } from "../../../src/domain/Identity.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { failNext } from "../../../src/infra/guests/scriptedState.ts"
import { commandOf, fixture, provisioned, Scripted } from "../removal/fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const sandboxOf = Effect.fnUntraced(function* (project: ProjectId) {
  const runtime = Option.getOrThrow(yield* (yield* RuntimeStore).runtime(project))
  return Option.getOrThrow(Option.fromNullOr(runtime.sandbox))
})

const leasesOf = (project: ProjectId) => Effect.flatMap(LeaseStore, (store) => store.ofProject(project))

describe("runCommand", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "SP-LEASE-06 a command that a paused guest refuses has begun nothing, and its lease is released",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const supervisor = yield* GuestSupervisor
          const sandbox = yield* sandboxOf(scene.project)
          yield* supervisor.pause(sandbox)
          const refused = yield* Effect.flip(Stream.runDrain(commandOf(scene)))
          assert.deepInclude(refused, { code: "invalid_guest_state", state: "paused" })
          assert.deepStrictEqual(yield* leasesOf(scene.project), [])
          yield* supervisor.resume(sandbox)
          yield* Stream.runDrain(commandOf(scene))
          assert.deepStrictEqual(yield* leasesOf(scene.project), [])
        })
    )

    it.effect(
      "SP-LEASE-06 a command that failed, or was refused after its first event, keeps its lease",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const { guests } = yield* Scripted
          failNext(guests, "execute", "after")
          assert.deepInclude(yield* Effect.flip(Stream.runDrain(commandOf(scene))), { code: "guest_failure" })
          assert.lengthOf(yield* leasesOf(scene.project), 1)
          const output = ExecutionEvent.cases.Output.make({ stream: "stdout", bytes: new Uint8Array([1]) })
          const begun = Effect.updateService(GuestSupervisor, (supervisor) => ({
            ...supervisor,
            execute: (sandbox) =>
              Stream.concat(
                Stream.succeed(output),
                Stream.fail(new GuestStateRefused({ sandbox, call: "execute", state: "paused" }))
              )
          }))
          const refused = yield* Effect.flip(Stream.runDrain(commandOf(scene)).pipe(begun))
          assert.deepInclude(refused, { code: "invalid_guest_state" })
          assert.lengthOf(yield* leasesOf(scene.project), 2)
        })
    )
  })
})
