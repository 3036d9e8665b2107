/** The groups about environments over a real socket, for somebody who is no administrator, and what the wire refuses. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { EnvironmentLeaseId, ProviderPluginId } from "../../../src/domain/Identity.ts"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import { isApiError } from "../../../src/infra/http/ApiErrors.ts"
import { refusalOfRuntime } from "../../../src/infra/http/environmentRefusals.ts"
import { ProviderWorkerOffline } from "../../../src/domain/runLeases/RunLeaseErrors.ts"
import { leaseOf } from "../../domain/environments/leaseBuilders.ts"
import { administrator, uuid } from "./scriptedServer.ts"
import { serve } from "./steeredHandlers.ts"

const somebody = new Caller({ ...administrator, administrator: false, name: "somebody" })
const environment = "web"
const lease = EnvironmentLeaseId.make(uuid(30))

const codeOf = <A, E, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(call), (error) => (isApiError(error) ? error.code : String(error)))

describe("environmentHandlers", () => {
  it.live(
    "SP-HTTP-04 environments, providers and sweeps are administrators'; nothing is asked of any port",
    () =>
      Effect.gen(function* () {
        const client = yield* serve({ caller: somebody })
        const payload = { name: "web", driver: "sandbox", config: {} } as const
        const params = { environment }
        const calls = [
          client.environments.create({ payload }),
          client.environments.list(),
          client.environments.get({ params }),
          client.environments.update({ params, payload: { status: "disabled" } }),
          client.environments.remove({ params }),
          client.environmentLeases.sweep(),
          client.providers.list(),
          client.providers.add({ payload: { folder: "/plugin" } }),
          client.providers.remove({ params: { provider: ProviderPluginId.make(uuid(31)) } })
        ] as ReadonlyArray<Effect.Effect<unknown, unknown>>
        const codes = yield* Effect.forEach(calls, codeOf)
        assert.deepStrictEqual(new Set(codes), new Set(["administrator_needed"]))
      }).pipe(Effect.scoped)
  )

  it.live("SP-HTTP-04 a lease of another tenant is a 404 for every verb, and is not touched", () =>
    Effect.gen(function* () {
      const foreign = leaseOf({ id: lease })
      const client = yield* serve({
        caller: somebody,
        environmentLeases: { getLeaseById: () => Effect.succeed(Option.some(foreign)) }
      })
      const { destroy, get, release, retry, why } = client.environmentLeases
      for (const verb of [get, why, release, destroy, retry]) {
        const call = verb({ params: { lease } }) as Effect.Effect<unknown, unknown>
        assert.strictEqual(yield* codeOf(call), "environment_lease_not_found")
      }
    }).pipe(Effect.scoped)
  )

  it.live("what the wire refuses is named, and a secret's value never repeated", () =>
    Effect.gen(function* () {
      const client = yield* serve()
      const long = { name: "key", value: `canary${"x".repeat(70_000)}` }
      const refused = yield* Effect.flip(client.secrets.set({ payload: long }))
      assert.notInclude(JSON.stringify(refused), "canary")
      const upper = { name: "UPPER", driver: "local", config: {} } as const
      assert.notStrictEqual(yield* codeOf(client.environments.create({ payload: upper })), "internal")
    }).pipe(Effect.scoped)
  )

  it("FC-21 an error that no table knows is a provider's, and nothing of it is told", () => {
    const known = new ProviderWorkerOffline({ provider: "p" })
    assert.strictEqual(refusalOfRuntime(known), known)
    for (const foreign of [
      new Error("canary"),
      Object.assign(new Error("canary"), { code: "ECANARY" }),
      { code: "not_found", message: "canary" }
    ]) {
      const told = refusalOfRuntime(foreign)
      assert.strictEqual(told.code, "provider_failed")
      assert.notInclude(told.message, "canary")
    }
  })
})
