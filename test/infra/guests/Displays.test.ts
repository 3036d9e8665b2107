/** The script of a display, as a shell carries it out where its server is missing. With one: layers/daemonDesktop.test.ts. */
import { spawnSync } from "node:child_process"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Displays } from "../../../src/domain/desktop/Displays.ts"
import { layer } from "../../../src/infra/guests/Displays.ts"

describe("Displays", () => {
  it.effect(
    "SP-DESK-05 a guest without Xvnc is told by a status of its own, and what is missing by a sentence",
    () =>
      Effect.gen(function* () {
        const { command, whyMissing } = yield* Displays
        const [program, ...rest] = command.argv
        const { status } = spawnSync(program, rest, { env: { PATH: "/nowhere" } })
        assert.include(whyMissing(status ?? 0), "its guest has no Xvnc: install tigervnc-standalone-server")
        assert.isNull(whyMissing(0))
        assert.isNull(whyMissing(127))
      }).pipe(Effect.provide(layer))
  )

  it.effect("nobody answers behind a socket that is not there", () =>
    Effect.gen(function* () {
      const { answers } = yield* Displays
      assert.isFalse(yield* answers("/nowhere/display.sock"))
    }).pipe(Effect.provide(layer))
  )
})
