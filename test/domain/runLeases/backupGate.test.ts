import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { requireBackup } from "../../../src/domain/runLeases/backupGate.ts"
import { HarnessBackups } from "../../../src/domain/runLeases/HarnessBackups.ts"
import {
  agent,
  environment,
  leaseOf,
  pinned,
  providerLeaseId,
  tenant,
  workspace
} from "../environments/leaseBuilders.ts"

const stampOf = (adapterType: string | null) => ({
  version: 1,
  tenantId: tenant,
  environmentId: environment,
  executionWorkspaceId: workspace,
  agentId: agent,
  adapterType,
  provider: "fake-plugin"
})
const backup = { manifestPath: "/backups/manifest.json" }

/** Whether the gate lets the lease through, and what it asked for. */
const gate = (reusableSandboxLease: unknown, isVerified: boolean) => {
  const asked: Array<ReadonlyArray<unknown>> = []
  const lease = leaseOf({ metadata: { ...pinned, reusableSandboxLease, nativeHarnessBackup: backup } })
  return Effect.match(requireBackup(lease), {
    onSuccess: () => ({ isOpen: true, asked, refusal: "" }),
    onFailure: (refusal) => ({ isOpen: false, asked, refusal: refusal.message })
  }).pipe(
    Effect.provideService(HarnessBackups, {
      verifies: (...given) =>
        Effect.sync(() => {
          asked.push(given)
          return isVerified
        })
    })
  )
}

describe("runLeases/backupGate", () => {
  it.effect("RL-BACKUP-01 a native lease passes with a proved backup of its own resource alone", () =>
    Effect.gen(function* () {
      const refused = yield* gate(stampOf("native_runner"), false)
      assert.deepInclude(refused, { isOpen: false, asked: [[backup, providerLeaseId]] })
      assert.include(refused.refusal, "runner_harness_backup_unavailable")
      assert.deepInclude(yield* gate(stampOf("native_runner"), true), { isOpen: true })
    })
  )

  it.effect("RL-BACKUP-01 what is no native runner's needs none, and none is looked for", () =>
    Effect.gen(function* () {
      for (const stamp of [stampOf(null), stampOf("local_agent"), undefined])
        assert.deepStrictEqual(yield* gate(stamp, false), { isOpen: true, asked: [], refusal: "" })
    })
  )
})
