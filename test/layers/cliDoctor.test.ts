/** The verb `doctor` beside a daemon that is degraded. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { CheckView } from "../../src/infra/http/Views.ts"
import { serveScript } from "../infra/http/scriptedServer.ts"
import { holdfast } from "./cliHarness.ts"

const failed: CheckView = {
  name: "sweep of leases",
  state: "failed",
  detail: "attempted 3, done 0, failed 3",
  advice: "see the daemon's log"
}

const testMillisMax = 30_000

describe("holdfast doctor", () => {
  it.live(
    "FC-05 a sweep that failed wholly makes the verb end with 1, whatever this machine can carry",
    () =>
      Effect.gen(function* () {
        const degraded = yield* serveScript({ health: Effect.succeed("degraded"), checks: [failed] })
        const sound = yield* serveScript({ checks: [{ ...failed, state: "ok", advice: null }] })
        const bad = yield* holdfast(["doctor", "--socket", degraded])
        assert.strictEqual(bad.exit, 1)
        assert.include(bad.stdout, "attempted 3, done 0, failed 3")
        assert.include(bad.stdout, "The daemon is degraded")
        const good = yield* holdfast(["doctor", "--json", "--socket", sound])
        const { usable } = JSON.parse(good.stdout) as { usable: boolean }
        assert.strictEqual(good.exit, usable ? 0 : 1)
      }),
    testMillisMax
  )
})
