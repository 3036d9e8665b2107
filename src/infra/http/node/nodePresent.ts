/**
 * From a record and a proof to what the node's API shows. Pure. The values of the environment and the endpoint token
 * are left out here, and leave no other way either. Source: RG-REC-02.
 */
import { type AbsenceProof, describeProof } from "../../../domain/guests/AbsenceProof.ts"
import type { SandboxId } from "../../../domain/Identity.ts"
import type { Readiness } from "../../../domain/registry/readiness.ts"
import type { SandboxRecord } from "../../../domain/registry/Record.ts"
import type { InspectionView, SandboxDeletionView, SandboxSummary, SandboxView } from "./NodeViews.ts"

export const sandboxSummary = (record: SandboxRecord): SandboxSummary => ({
  sandbox: record.id,
  requestId: record.origin?.key ?? null,
  status: record.status,
  statusReason: record.statusReason,
  deleting: record.deletion !== null,
  image: record.image,
  cpuMillis: record.cpuMillis,
  memoryBytes: record.memoryBytes,
  createdAtMillis: record.createdAtMillis,
  expiresAtMillis: record.expiresAtMillis
})

export const sandboxView = (record: SandboxRecord): SandboxView => ({
  ...sandboxSummary(record),
  generation: record.generation,
  argv: record.argv,
  environment: Object.keys(record.environment).toSorted(),
  metadata: record.metadata,
  processesMax: record.processesMax,
  deletion: record.deletion
})

export const inspectionView = (record: SandboxRecord, { ready, why }: Readiness): InspectionView => ({
  ...sandboxView(record),
  ready,
  notReadyBecause: why
})

export const deletedView = (proof: AbsenceProof): SandboxDeletionView => ({
  sandbox: proof.sandbox,
  state: "deleted",
  proof: describeProof(proof),
  evidence: proof.evidence._tag,
  observedAtMillis: proof.observedAtMillis,
  inTheWay: null
})

/** The intent is durable, and this stood in the way of the proof. */
export const pendingView = (sandbox: SandboxId, inTheWay: string): SandboxDeletionView => ({
  sandbox,
  state: "pending",
  proof: null,
  evidence: null,
  observedAtMillis: null,
  inTheWay
})
