/** One display under its lease, over scripted guests on a clone. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { openDisplay } from "../../../src/domain/desktop/display.ts"
import { failNext } from "../../../src/infra/guests/scriptedState.ts"
import { inTime } from "../../support/waiting.ts"
import { Scripted } from "../removal/fixture.ts"
import { fixture, leasesOf, machineOf, onBoot, oneRuns, playDisplay, Steered } from "./fixture.ts"

const live = { excludeTestServices: true, timeout: "30 seconds" } as const

describe("desktop/display", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "SP-LEASE-07 a display holds its lease for as long as it runs, and the scope's end ends both",
      () =>
        Effect.gen(function* () {
          const { caller, project } = yield* machineOf
          const steering = yield* Steered
          yield* Effect.scoped(
            Effect.gen(function* () {
              const { handle } = yield* openDisplay(caller, project)
              yield* oneRuns
              assert.deepStrictEqual(
                (yield* leasesOf(project)).map(({ id }) => id),
                [handle.lease.id]
              )
            })
          )
          assert.strictEqual(steering.running, 0)
          assert.deepStrictEqual(yield* leasesOf(project), [])
        }).pipe(onBoot)
    )

    it.effect("SP-LEASE-06 a display of which the guest cannot tell has ended, and its lease is kept", () =>
      Effect.gen(function* () {
        const { caller, project } = yield* machineOf
        const { guests } = yield* Scripted
        playDisplay(guests, Effect.succeed([]))
        failNext(guests, "execute", "after")
        yield* Effect.scoped(
          Effect.gen(function* () {
            const { ended } = yield* openDisplay(caller, project)
            assert.isNull(yield* inTime("it ends", ended))
          })
        )
        assert.lengthOf(yield* leasesOf(project), 1)
      }).pipe(onBoot)
    )
  })
})
