/** The provenance of a sandbox from its record and its guest's identity: what may be told of it, and kept for ever. Pure. */
import type { GuestIdentity } from "../guests/GuestSupervisor.ts"
import type { Provenance } from "../reclamation/Provenance.ts"
import type { SandboxRecord } from "./Record.ts"

/** Metadata by which the host marks the sandbox of a Project. */
const projectKey = "project"

export const provenanceOf = (record: SandboxRecord, identity: GuestIdentity | null): Provenance => ({
  origin: record.origin ?? null,
  project: record.metadata[projectKey] ?? null,
  cpuMillis: record.cpuMillis,
  memoryBytes: record.memoryBytes,
  createdAtMillis: record.createdAtMillis,
  expiresAtMillis: record.expiresAtMillis,
  history: record.history ?? [],
  statusReason: record.statusReason,
  deletion: record.deletion,
  guest:
    identity === null
      ? null
      : {
          supervisor: identity.supervisor,
          generation: identity.generation,
          bootId: identity.bootId,
          init: identity.init,
          userId: identity.userId
        }
})
