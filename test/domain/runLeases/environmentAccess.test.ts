/** Who finds and keeps what: names and ids, tenants, administrators, and what a config may hold. */
import { randomUUID } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { EnvironmentDriverName } from "../../../src/domain/environments/Environment.ts"
import { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import {
  findEnvironment,
  findLease,
  requireAdministrator
} from "../../../src/domain/runLeases/environmentAccess.ts"
import { deleteEnvironment } from "../../../src/domain/runLeases/environmentDeletion.ts"
import { createEnvironment, updateEnvironment } from "../../../src/domain/runLeases/environmentKeeping.ts"
import { callerOf, people, withRuntime } from "./callers.ts"
import {
  fakeConfigSchema,
  fakeEntry,
  newEnvironment,
  newPlugin,
  newTenant,
  onClone,
  reuseFixture
} from "./fixture.ts"
import { newLease, setRun, sql } from "./rawRows.ts"
import { receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const codeOf = <A, R>(asked: Effect.Effect<A, { readonly code: string }, R>) =>
  Effect.map(Effect.flip(asked), ({ code }) => code)

describe("runLeases/environmentAccess", () => {
  it.live("an environment is found by its id, or else by its name", () =>
    Effect.gen(function* () {
      const made = yield* newEnvironment("local")
      const other = yield* newEnvironment("ssh")
      assert.strictEqual((yield* findEnvironment(made.name)).id, made.id)
      assert.strictEqual((yield* findEnvironment(other.id)).id, other.id)
      assert.strictEqual(yield* codeOf(findEnvironment("nowhere")), "environment_not_found")
      assert.strictEqual(yield* codeOf(findEnvironment(randomUUID())), "environment_not_found")
    }).pipe(onClone)
  )

  it.live("SP-HTTP-04 a lease of another tenant is answered like one that is not there", () =>
    Effect.gen(function* () {
      const { root, tenant } = yield* people
      const environment = yield* newEnvironment("local")
      const lease = yield* newLease(tenant, environment.id)
      assert.strictEqual((yield* findLease(root, lease)).id, lease)
      const foreign = yield* Effect.flip(findLease(callerOf(yield* newTenant), lease))
      const absent = yield* Effect.flip(findLease(root, EnvironmentLeaseId.make(randomUUID())))
      assert.deepStrictEqual([foreign._tag, absent._tag], Array(2).fill("EnvironmentLeaseNotFound"))
    }).pipe(onClone)
  )

  it.live("only an administrator is one", () =>
    Effect.gen(function* () {
      const { root, somebody } = yield* people
      yield* requireAdministrator(root, "providers")
      assert.strictEqual(yield* codeOf(requireAdministrator(somebody, "providers")), "administrator_needed")
    }).pipe(onClone)
  )
})

const secretSchema = {
  type: "object",
  properties: { apiKey: { type: "string", format: "secret-ref" }, image: { type: "string" } }
}
const ref = { type: "secret_ref", secretId: randomUUID(), version: "latest" }

describe("runLeases/environmentKeeping", () => {
  const cases: ReadonlyArray<readonly [string, EnvironmentDriverName, JsonObject, string | null]> = [
    ["a value at a secret's place of a sandbox", "sandbox", { provider: "keyed", apiKey: "clear" }, "apiKey"],
    ["a reference there", "sandbox", { provider: "keyed", apiKey: ref }, null],
    ["a secret's id there", "sandbox", { provider: "keyed", apiKey: ref.secretId }, null],
    ["a reference that cannot be read", "sandbox", { provider: "other", key: { type: "secret_ref" } }, "key"],
    [
      "a value at a secret's place of a plain driver",
      "plugin",
      { pluginKey: "acme.keyed", driverKey: "plain", driverConfig: { apiKey: "clear" } },
      "apiKey"
    ],
    ["an SSH key in the clear", "ssh", { host: "h", privateKey: "-----BEGIN" }, "privateKey"],
    ["an SSH key beside it", "ssh", { host: "h", privateKey: null, privateKeySecretRef: ref }, null],
    ["a provider that is not installed", "sandbox", { provider: "absent", apiKey: "anything" }, null]
  ]
  it.live.each(cases)("FC-21 RL-SECRET-05 %s", ([, driver, config, refused]) =>
    Effect.gen(function* () {
      const plain = fakeEntry({ driverKey: "plain", kind: "environment_driver", configSchema: secretSchema })
      yield* newPlugin({
        key: "acme.keyed",
        entries: [fakeEntry({ driverKey: "keyed", configSchema: secretSchema }), plain]
      })
      const creation = yield* Effect.result(createEnvironment({ name: "e", driver, config }))
      const present = yield* newEnvironment(driver, {})
      const change = yield* Effect.result(updateEnvironment(present, { config }))
      for (const each of [creation, change]) {
        const path = each._tag === "Failure" && "path" in each.failure ? each.failure.path : null
        assert.strictEqual(path, refused)
      }
      const stored = JSON.stringify(yield* sql("select config from environments"))
      if (refused !== null) assert.notInclude(stored, "clear")
    }).pipe(onClone)
  )
})

describe("runLeases/environmentDeletion", () => {
  it.live("RL-DESTROY-05 what it keeps alive is destroyed, then it goes; a live run's lease keeps it", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ entry: { configSchema: fakeConfigSchema } })
      const workers = scriptedWorkers({ call: (call) => Effect.sync(() => receiptOf("destroyed")(call)) })
      const removing = deleteEnvironment(scene.environment).pipe(withRuntime({ workers: workers.manager }))
      const error = yield* Effect.flip(removing)
      assert.deepInclude(error, { code: "environment_in_use", skippedLiveRun: 1, destroyed: 0 })
      yield* setRun(scene.run, "succeeded")
      assert.strictEqual((yield* removing).destroyed, 1)
      assert.deepStrictEqual(yield* sql("select id from environments"), [])
    }).pipe(onClone)
  )

  it.live("RL-FENCE-04 one whose resource cannot be destroyed stays, with the lease that owes it", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ runStatus: "succeeded" })
      const workers = scriptedWorkers({ call: () => Effect.fail(new Error("no")) })
      const error = yield* deleteEnvironment(scene.environment).pipe(
        withRuntime({ workers: workers.manager }),
        Effect.flip
      )
      assert.deepInclude(error, { code: "environment_in_use", failed: 1 })
      assert.lengthOf(yield* sql("select id from environments"), 1)
    }).pipe(onClone)
  )
})
