/** What of a provider's answer may stand at the top of a row. */
import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import { hostMetadataKeys } from "../../../src/domain/environments/EnvironmentLease.ts"
import { providerFieldsOf } from "../../../src/domain/runLeases/SandboxRequest.ts"

const resolved = { config: Redacted.make({}), uses: [], values: [Redacted.make("canary-value")] }

describe("SandboxRequest", () => {
  it("RL-DRIVER-02 RL-SECRET-02 a provider cannot write a key of the host's, nor a secret that it was given", () => {
    const lies = Object.fromEntries([...hostMetadataKeys].map((key) => [key, "theirs"]))
    const returned = { ...lies, sandboxId: "s", note: "it is canary-value" }
    assert.deepStrictEqual(providerFieldsOf(returned, {}, resolved, undefined), {
      remoteCwd: "theirs",
      host: "theirs",
      port: "theirs",
      username: "theirs",
      remoteWorkspacePath: "theirs",
      sandboxId: "s",
      note: "it is [redacted]"
    })
  })
})
