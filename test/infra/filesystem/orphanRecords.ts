/** Orphans as the spool keeps them: each number is one, with a provider lease of its own. */
import { EnvironmentId, EnvironmentLeaseId, RunId, SecretId, TenantId } from "../../../src/domain/Identity.ts"
import type { OrphanRecord } from "../../../src/domain/runLeases/OrphanSpool.ts"

const uuidOf = (number: number): string => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`

export const orphanOf = (number: number, fields: Partial<OrphanRecord> = {}): OrphanRecord => ({
  id: EnvironmentLeaseId.make(uuidOf(number)),
  tenant: TenantId.make(uuidOf(900)),
  environment: EnvironmentId.make(uuidOf(901)),
  executionWorkspace: null,
  task: null,
  run: RunId.make(uuidOf(902)),
  provider: "fake",
  providerLeaseId: `sandbox://fake/${uuidOf(902)}/${uuidOf(number)}`,
  metadata: { driver: "sandbox", apiKey: SecretId.make(uuidOf(903)) },
  sentConfig: null,
  failureReason: "acquire_rejected_teardown_failed",
  ...fields
})
