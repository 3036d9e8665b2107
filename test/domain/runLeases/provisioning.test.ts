/** What is durable before anything is created, and what stays of it when the creation fails. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ProviderCallFailed, ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import { makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { newEnvironment, onClone } from "./fixture.ts"
import { leaseRowsOf, sql } from "./rawRows.ts"
import { freshRuntime, processIdentity } from "./runtimes.ts"

const intents = sql("select * from provider_intents")

describe("provisioning", () => {
  it.live.each([
    ["is told", true],
    ["is not told to one that would not understand it", undefined]
  ] as const)(
    "BX-01 an intent is durable before a plugin is asked, goes with the row, and %s",
    ([, supportsIntents]) =>
      Effect.gen(function* () {
        const context = yield* Effect.context<Effect.Services<typeof intents>>()
        let atCall: ReadonlyArray<object> = []
        const scene = yield* leasedPlugin({
          entry: { supportsIntents },
          answers: {
            environmentAcquireLease: () =>
              Effect.provideContext(Effect.orDie(intents), context).pipe(
                Effect.map((rows) => {
                  atCall = rows
                  return { providerLeaseId: "s" }
                })
              )
          }
        })
        const { lease } = yield* scene.runtime.acquireRunLease(acquisitionOf(scene))
        const [intent, ...others] = atCall
        assert.deepStrictEqual(others, [])
        assert.deepInclude(intent, {
          id: lease.id,
          tenant_id: scene.tenant,
          environment_id: scene.environment.id,
          run_id: scene.run,
          provider: "fake-plugin",
          plugin_id: scene.plugin.id,
          name: `holdfast-test-${lease.id}`,
          installation: "holdfast-test",
          generation: 1n,
          process: processIdentity.toString()
        })
        assert.deepStrictEqual(
          scene.workers.calls[0]?.params["intent"],
          supportsIntents === true
            ? { name: `holdfast-test-${lease.id}`, installation: "holdfast-test", generation: 1 }
            : undefined
        )
        assert.strictEqual("intent" in (scene.workers.calls[0]?.params ?? {}), supportsIntents === true)
        assert.deepStrictEqual(yield* intents, [])
      }).pipe(onClone)
  )

  it.live("BX-01 a built-in provider is told the intent's name", () =>
    Effect.gen(function* () {
      const scene = yield* leasedPlugin()
      const fake = makeFakeProvider()
      const environment = yield* newEnvironment("sandbox", { provider: "fake" })
      const runtime = yield* freshRuntime({ builtIns: [fake.provider] })
      const { lease } = yield* runtime.acquireRunLease({ ...acquisitionOf(scene), environment })
      assert.deepInclude(fake.sandboxes()[0], {
        intentName: `holdfast-test-${lease.id}`,
        installation: "holdfast-test"
      })
    }).pipe(onClone)
  )

  it.live.each([
    [
      "the answer is lost, and the provider could find what it made",
      true,
      new ProviderCallFailed({ method: "environmentAcquireLease", why: "crashed" }),
      1
    ],
    ["the answer is none", true, { metadata: {} }, 1],
    ["the provider refused", true, new ProviderRpcError({ code: -32_000, message: "no" }), 0],
    [
      "the answer is lost, and nobody could find it",
      undefined,
      new ProviderCallFailed({ method: "environmentAcquireLease", why: "timeout" }),
      0
    ]
  ] as const)(
    "BX-01 FC-02 an intent stays only where it can be of use: %s",
    ([, supportsIntents, answer, kept]) =>
      Effect.gen(function* () {
        const scene = yield* leasedPlugin({
          entry: { supportsIntents },
          answers: { environmentAcquireLease: answer }
        })
        const failure = yield* Effect.flip(scene.runtime.acquireRunLease(acquisitionOf(scene)))
        if (answer instanceof Error) assert.strictEqual(failure, answer)
        else assert.strictEqual((failure as ProviderCallFailed).why, "malformed")
        assert.strictEqual((yield* intents).length, kept)
        assert.strictEqual((yield* leaseRowsOf(scene.environment.id)).length, 1)
      }).pipe(onClone)
  )
})
