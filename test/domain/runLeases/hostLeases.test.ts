/** Rows of leases without a provider, on a real clone. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { acquireHostLease, releaseHostLease } from "../../../src/domain/runLeases/hostLeases.ts"
import { newAgent, newEnvironment, newRun, newTenant, onClone } from "./fixture.ts"
import { leaseRow, setLease } from "./rawRows.ts"

const acquired = Effect.gen(function* () {
  const tenant = yield* newTenant
  const agent = yield* newAgent(tenant)
  const [run, other] = [yield* newRun(tenant, agent.id), yield* newRun(tenant, agent.id)]
  const asked = {
    tenant,
    environment: yield* newEnvironment("ssh"),
    task: null,
    run: run.id,
    executionWorkspace: null,
    requestedExpiresAtMillis: 4_000_000_000_000
  }
  const lease = yield* acquireHostLease(asked, {
    id: EnvironmentLeaseId.make(randomUUID()),
    driver: "ssh",
    providerLeaseId: "ssh://user@host:22",
    metadata: { host: "host" },
    sentConfig: { host: "host" }
  })
  return { lease, other: other.id }
})

describe("runLeases/hostLeases", () => {
  it.live("RL-EXPIRY-02 an expiry that is asked for is attested by nobody, and so not recorded", () =>
    onClone(
      Effect.gen(function* () {
        const { lease } = yield* acquired
        assert.isNull(lease.expiresAtMillis)
        assert.deepInclude(lease, {
          provider: null,
          providerLeaseId: "ssh://user@host:22",
          policy: "ephemeral"
        })
        assert.deepStrictEqual(lease.metadata, { driver: "ssh", executionWorkspaceMode: null, host: "host" })
      })
    )
  )

  it.live("RL-REL-01 FC-22 it ends as it is told, with who ended it and why", () =>
    onClone(
      Effect.gen(function* () {
        const { lease } = yield* acquired
        const ending = { reason: "daemon_died", actor: "recovery" }
        const ended = yield* releaseHostLease({ lease, environment: null, status: "failed", ending })
        assert.deepInclude(ended, { status: "failed", failureReason: "daemon_died", endedBy: "recovery" })
      })
    )
  )

  it.live(
    "RL-STOP-08 a row that became another run's while its processes were ended is left to that one",
    () =>
      onClone(
        Effect.gen(function* () {
          const { lease, other } = yield* acquired
          yield* setLease(lease.id, { run_id: other })
          assert.isNull(yield* releaseHostLease({ lease, environment: null, status: "released" }))
          assert.deepInclude(yield* leaseRow(lease.id), { status: "active", run_id: other })
        })
      )
  )
})
