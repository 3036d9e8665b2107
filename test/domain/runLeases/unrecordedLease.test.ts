import { assert, describe, it } from "@effect/vitest"
import { randomUUID } from "node:crypto"
import { Environment, type EnvironmentDriverName } from "../../../src/domain/environments/Environment.ts"
import { EnvironmentId, EnvironmentLeaseId, TenantId } from "../../../src/domain/Identity.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { unrecordedLease } from "../../../src/domain/runLeases/unrecordedLease.ts"

const environmentOf = (driver: EnvironmentDriverName, config: JsonObject) =>
  new Environment({
    id: EnvironmentId.make(randomUUID()),
    name: "e",
    description: null,
    driver,
    status: "active",
    config,
    metadata: null,
    createdAtMillis: 0,
    updatedAtMillis: 0
  })

const leaseIn = (environment: Environment | null, provider: string, pin: JsonObject = {}) =>
  unrecordedLease({
    id: EnvironmentLeaseId.make(randomUUID()),
    tenant: TenantId.make(randomUUID()),
    environment,
    environmentId: environment?.id ?? null,
    run: null,
    provider,
    pin,
    failureReason: "creation_lost"
  })

describe("runLeases/unrecordedLease", () => {
  it("FC-02 a sandbox is looked for by its environment's present config, without the provider's key", () => {
    const lease = leaseIn(environmentOf("sandbox", { provider: "p", image: "i" }), "p", { pluginId: "x" })
    assert.deepStrictEqual(lease.sentConfig, { image: "i" })
    assert.deepStrictEqual(lease.metadata, { image: "i", driver: "sandbox", provider: "p", pluginId: "x" })
    assert.deepInclude(lease, {
      status: "pending_cleanup",
      cleanupStatus: "failed",
      failureReason: "creation_lost"
    })
  })

  it("an environment that names another provider by now, or is gone, lends no config", () => {
    for (const environment of [environmentOf("sandbox", { provider: "q", image: "i" }), null])
      assert.deepStrictEqual(leaseIn(environment, "p").sentConfig, {})
  })

  it("FC-03 one of the driver plugin is asked by its driver's config, and its row has none of it", () => {
    const config = { pluginKey: "k", driverKey: "d", driverConfig: { template: "t" } }
    const lease = leaseIn(environmentOf("plugin", config), "d")
    assert.deepStrictEqual(lease.sentConfig, { template: "t" })
    assert.deepStrictEqual(lease.metadata, { driver: "plugin", driverKey: "d" })
  })
})
