/** What a provider is told when it is asked for a resource, and the expiry that it attests in return. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { onClone } from "./fixture.ts"
import { pluginScene } from "./pluginScenes.ts"

describe("acquisitionParams", () => {
  const requested = Date.parse("2031-01-01T00:00:00.000Z")
  it.live.each([
    ["none requested, one granted", undefined, "2031-01-01T00:02:00.456Z"],
    ["granted in another offset", undefined, "2031-01-01T02:00:00.001+02:00"],
    ["requested, none granted", requested, undefined],
    ["a later one granted", requested + 60_000, "2031-01-01T00:02:00.000Z"],
    ["no moment granted", requested, "tomorrow"],
    ["a time without an offset granted", requested, "2031-01-01T00:02:00.000"]
  ] as const)(
    "RL-EXPIRY-01 RL-EXPIRY-02 RL-EXPIRY-03 %s, on either driver",
    ([, requestedExpiresAtMillis, expiresAt]) =>
      Effect.gen(function* () {
        const answer = {
          environmentAcquireLease: {
            providerLeaseId: "p-1",
            ...(expiresAt === undefined ? {} : { expiresAt })
          }
        }
        const wish = requestedExpiresAtMillis === undefined ? {} : { requestedExpiresAtMillis }
        const plugin = yield* pluginScene(answer)
        const sandbox = yield* leasedPlugin({ answers: answer })
        const granted = /(Z|\+02:00)$/.test(expiresAt ?? "") ? Date.parse(String(expiresAt)) : Number.NaN
        for (const scene of [
          { ...plugin, ...plugin.asked },
          { ...sandbox, ...acquisitionOf(sandbox) }
        ]) {
          const { tenant, environment, task, run, executionWorkspace } = scene
          const { lease } = yield* scene.runtime.acquireRunLease({
            tenant,
            environment,
            task,
            run,
            executionWorkspace,
            ...wish
          })
          assert.strictEqual(lease.expiresAtMillis, Number.isNaN(granted) ? null : granted)
          const { params } = scene.workers.calls.at(-1)!
          assert.strictEqual(
            params["requestedExpiresAt"],
            requestedExpiresAtMillis === undefined
              ? undefined
              : new Date(requestedExpiresAtMillis).toISOString()
          )
        }
      }).pipe(onClone)
  )
})
