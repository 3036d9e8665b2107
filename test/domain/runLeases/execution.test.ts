/** Commands in a leased sandbox: params, budgets, sessions, secrets and the trace that they run in. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import type { Execution } from "../../../src/domain/runLeases/EnvironmentDriver.ts"
import { ActiveStepContext, traceparentOf, withRunParent } from "../../../src/domain/runLeases/RunParent.ts"
import { bindSecret, createSecret } from "../../../src/domain/secrets/vault.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { fakeConfigSchema, newEnvironment, onClone } from "./fixture.ts"
import { leaseRow } from "./rawRows.ts"
import type { Answers } from "./scriptedWorkers.ts"

const config = { provider: "fake-plugin", image: "fake:test", timeoutMs: 1234, reuseLease: false }
const result = { exitCode: 0, signal: null, timedOut: false, stdout: "hello\n", stderr: "" }
const command = { command: "echo", args: ["hello"], cwd: "/workspace", env: { A: "1" } }

/** An ephemeral lease of a plugin's sandbox. */
const leased = (answers: Answers = {}, stored: object = config) =>
  Effect.gen(function* () {
    const scene = yield* leasedPlugin({
      config: { ...stored },
      answers: { environmentExecute: { ...result }, ...answers }
    })
    const { lease } = yield* scene.runtime.acquireRunLease(acquisitionOf(scene))
    scene.workers.reset()
    return { ...scene, held: lease, asked: { environment: scene.environment, lease, ...command } }
  })

const runParent = {
  traceId: "0af7651916cd43dd8448eb211c80319c",
  spanId: "b7ad6b7169203331",
  traceFlags: 1
}

describe("execution", () => {
  it.live(
    "RL-EXEC-01 RL-BUDGET-04 a command goes to the plugin with its own budget, five arguments long",
    () =>
      Effect.gen(function* () {
        const scene = yield* leased()
        const answer = yield* scene.runtime.execute({
          ...scene.asked,
          timeoutMillis: 1000,
          commandTimeoutMillis: 900,
          forceSession: true
        })
        assert.deepStrictEqual(answer, result)
        const [call, ...others] = scene.workers.calls
        assert.deepStrictEqual(others, [])
        assert.strictEqual(call?.method, "environmentExecute")
        assert.deepInclude(call?.params, {
          driverKey: "fake-plugin",
          tenantId: scene.tenant,
          environmentId: scene.environment.id,
          timeoutMs: 1000,
          commandTimeoutMs: 900,
          bypassSession: false,
          ...command
        })
        assert.deepStrictEqual(call?.params["config"], {
          image: "fake:test",
          timeoutMs: 1234,
          reuseLease: false
        })
        assert.deepStrictEqual([call?.given.length, call?.given[3], call?.given[4]], [5, 31_000, undefined])
      }).pipe(onClone)
  )

  const sessions: ReadonlyArray<
    readonly [string, Pick<Execution, "bypassSession" | "forceSession">, boolean, boolean]
  > = [
    ["T52 first: true asked", { bypassSession: true }, false, true],
    ["T52 second: a run parent", {}, true, false],
    ["T53: nothing asked, no run parent", {}, false, true],
    ["T49: forceSession", { forceSession: true }, false, false],
    ["U11: true asked inside a run", { bypassSession: true }, true, true],
    ["U11: true asked with forceSession", { bypassSession: true, forceSession: true }, false, true],
    ["U11: false asked outside a run", { bypassSession: false }, false, false]
  ]
  it.live.each(sessions)("RL-EXEC-02 session bypass, %s", ([, wish, hasParent, sent]) =>
    Effect.gen(function* () {
      const scene = yield* leased()
      const execute = scene.runtime.execute({ ...scene.asked, ...wish })
      yield* hasParent ? withRunParent(runParent)(execute) : execute
      assert.strictEqual(scene.workers.calls[0]?.params["bypassSession"], sent)
    }).pipe(onClone)
  )

  it.live.each([
    ["its own", { timeoutMillis: 1000 }, config, 31_000],
    ["the config's", {}, config, 31_234],
    ["the config's, whatever its command may take", { commandTimeoutMillis: 900 }, config, 31_234],
    ["none", {}, { provider: "fake-plugin", image: "i" }, undefined]
  ] as const)("RL-BUDGET-04 the budget of a command is %s", ([, wish, stored, budget]) =>
    Effect.gen(function* () {
      const scene = yield* leased({}, stored)
      yield* scene.runtime.execute({ ...scene.asked, ...wish })
      const [call] = scene.workers.calls
      assert.deepStrictEqual([call?.given.length, call?.given[3]], [5, budget])
    }).pipe(onClone)
  )

  it.live("RL-EXEC-01 the log sink is handed on, and the provider's error is the caller's", () =>
    Effect.gen(function* () {
      const failure = new Error("the provider's own")
      const scene = yield* leased({ environmentExecute: failure })
      const logSink = () => {}
      assert.strictEqual(yield* Effect.flip(scene.runtime.execute({ ...scene.asked, logSink })), failure)
      assert.strictEqual(scene.workers.calls[0]?.given[4], logSink)
    }).pipe(onClone)
  )

  it.live("RL-TRACE-01 what was executed in a run's scope is released under the very same parent", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const look = (answer: unknown) => () =>
        Effect.map(ActiveStepContext, (active) => {
          seen.push(active?.parentContext)
          return answer
        })
      const scene = yield* leased({
        environmentExecute: look({ ...result }),
        environmentReleaseLease: look(undefined)
      })
      yield* withRunParent({ ...runParent, spanId: "1".repeat(16) })(scene.runtime.execute(scene.asked))
      yield* withRunParent(runParent)(scene.runtime.execute(scene.asked))
      yield* scene.runtime.releaseRunLeases(scene.run)
      assert.strictEqual(seen.length, 3)
      assert.strictEqual(seen[2], runParent)
      assert.strictEqual(
        traceparentOf(seen[2] as typeof runParent),
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
      )
    }).pipe(onClone)
  )

  it.live.each([
    ["a lease on which nothing was executed", false],
    ["one on which something was executed outside every run", true]
  ])("RL-TRACE-02 %s is released without a parent", ([, executes]) =>
    Effect.gen(function* () {
      let seen: unknown = "nothing was called"
      const scene = yield* leased({
        environmentReleaseLease: () => Effect.map(ActiveStepContext, (active) => void (seen = active))
      })
      if (executes === true) yield* scene.runtime.execute(scene.asked)
      yield* scene.runtime.releaseRunLeases(scene.run)
      assert.isNull(seen)
    }).pipe(onClone)
  )

  it.live("RL-SECRET-01 RL-SECRET-02 every call gets the secret's value, and the row its id", () =>
    Effect.gen(function* () {
      const value = "canary-of-the-api-key"
      const schema = {
        ...fakeConfigSchema,
        properties: { apiKey: { type: "string", format: "secret-ref" }, timeoutMs: { type: "number" } }
      }
      const scene = yield* leasedPlugin({
        entry: { configSchema: schema },
        answers: {
          environmentExecute: { ...result },
          environmentAcquireLease: ({ params }) => ({
            providerLeaseId: "s-1",
            metadata: {
              apiKey: (params["config"] as { apiKey: string }).apiKey,
              sandboxId: "s",
              remoteCwd: "/w"
            }
          })
        }
      })
      const secret = (yield* createSecret({ tenant: scene.tenant, name: "key", value: Redacted.make(value) }))
        .id
      const environment = yield* newEnvironment("sandbox", {
        provider: "fake-plugin",
        apiKey: secret,
        timeoutMs: 1234
      })
      yield* bindSecret({ tenant: scene.tenant, secret, environment: environment.id, configPath: "apiKey" })
      const { lease } = yield* scene.runtime.acquireRunLease({ ...acquisitionOf(scene), environment })
      yield* scene.runtime.execute({ environment, lease, ...command })
      yield* EnvironmentStore.use((store) => store.update(environment.id, { driver: "plugin", config: {} }))
      yield* scene.runtime.releaseRunLeases(scene.run)
      assert.deepStrictEqual(
        scene.workers.calls.map(({ given, method, params }) => [
          method,
          params["config"],
          given.length,
          given[3]
        ]),
        [
          ["environmentAcquireLease", { apiKey: value, timeoutMs: 1234 }, 4, 31_234],
          ["environmentExecute", { apiKey: value, timeoutMs: 1234 }, 5, 31_234],
          ["environmentReleaseLease", { apiKey: value, timeoutMs: 1234 }, 4, 31_234]
        ]
      )
      const { metadata, sent_config } = yield* leaseRow(lease.id)
      assert.deepInclude(metadata, { apiKey: secret, sandboxId: "s", remoteCwd: "/w" })
      assert.notInclude(JSON.stringify([metadata, sent_config]), value)
    }).pipe(onClone)
  )
})
