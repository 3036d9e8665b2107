import { assert, describe, it } from "vitest"
import { hostMetadataKeys } from "../../../src/domain/environments/EnvironmentLease.ts"
import { recordedConfigOf } from "../../../src/domain/environments/recordedConfig.ts"
import { leaseOf, pinned } from "./leaseBuilders.ts"

const schema = { type: "object", properties: { image: {}, timeoutMs: {}, reuseLease: {} } }
const config = { image: "fake:test", timeoutMs: 1234, reuseLease: false }
const returned = { remoteCwd: "/workspace", sandboxId: "sbx-1" }

describe("environments/recordedConfig", () => {
  it("RL-REL-04 RL 6.1-15 what was sent is the config, and nothing that the provider returned", () => {
    const lease = leaseOf({
      sentConfig: { provider: "fake-plugin", ...config },
      metadata: { ...pinned, ...config, image: "changed", ...returned }
    })
    assert.deepStrictEqual(recordedConfigOf(lease, schema), config)
    assert.deepStrictEqual(recordedConfigOf(lease, undefined), config)
  })

  it("RL 6.1-16 a row without a record gives its metadata, of the schema's properties only", () => {
    const lease = leaseOf({ metadata: { ...pinned, ...config, ...returned } })
    assert.deepStrictEqual(recordedConfigOf(lease, schema), config)
  })

  it.each([undefined, {}, { properties: {} }, { properties: "none" }])(
    "RL 6.1-16 a schema that names nothing restricts nothing: %j",
    (configSchema) => {
      const lease = leaseOf({ metadata: { ...pinned, ...config, ...returned } })
      assert.deepStrictEqual(recordedConfigOf(lease, configSchema), { ...config, sandboxId: "sbx-1" })
    }
  )

  it("RL 6.1-16 no key of the host is ever among it", () => {
    const metadata = Object.fromEntries([...hostMetadataKeys].map((key) => [key, "host"]))
    const properties = { ...metadata, image: {} }
    const lease = leaseOf({ metadata: { ...metadata, image: "fake:test" } })
    assert.deepStrictEqual(recordedConfigOf(lease, { properties }), { image: "fake:test" })
  })
})
