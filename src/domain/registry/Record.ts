/**
 * What the node remembers about one sandbox, and the files that hold it. Source: RG-LAY, RG-REC-01.
 * Version 2 keeps one owner-wrapped file a sandbox; its layout is drawn in RegistryFiles.ts.
 */
import * as Schema from "effect/Schema"
import { Generation, NodeId, SandboxId } from "../Identity.ts"
import { RequestOrigin, StatusMoment } from "../reclamation/Provenance.ts"

/** `Failed` keeps its charge until a delete proves absence. Source: RG figures. */
export const SandboxStatus = Schema.Literals([
  "Pending",
  "Running",
  "Pausing",
  "Paused",
  "Resuming",
  "Stopping",
  "Terminated",
  "Failed"
])
export type SandboxStatus = typeof SandboxStatus.Type

/** Who wants the sandbox gone, and why: durable before anything native is touched. Source: RG-DEL-01, FC-22. */
export const DeletionIntent = Schema.Struct({
  reason: Schema.Literals(["user", "project", "replaced", "expired", "lost", "failed"]),
  actor: Schema.String,
  requestedAtMillis: Schema.Int
})
export type DeletionIntent = typeof DeletionIntent.Type

/** `Failed` and `Terminated` say why in one sentence of ours. */
export class SandboxRecord extends Schema.Class<SandboxRecord>("holdfast/SandboxRecord")({
  id: SandboxId,
  generation: Generation,
  runId: Schema.String,
  attemptId: Schema.String,
  image: Schema.String,
  argv: Schema.Array(Schema.String),
  environment: Schema.Record(Schema.String, Schema.String),
  metadata: Schema.Record(Schema.String, Schema.String),
  cpuMillis: Schema.Int.check(Schema.isGreaterThan(0)),
  memoryBytes: Schema.Int.check(Schema.isGreaterThan(0)),
  processesMax: Schema.Int.check(Schema.isGreaterThan(0)),
  /** Host directory mounted at /workspace that outlives the sandbox; null: private run storage. */
  disk: Schema.NullOr(Schema.String),
  createdAtMillis: Schema.Int,
  expiresAtMillis: Schema.Int,
  status: SandboxStatus,
  statusReason: Schema.NullOr(Schema.String),
  deletion: Schema.NullOr(DeletionIntent),
  /** 64 hex digits; a secret. */
  endpointToken: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/)),
  /** Left out where it was made by a program of the host. Source: RG figures (idempotency). */
  origin: Schema.optionalKey(RequestOrigin),
  /** States that it took since its creation as Pending, oldest first; of many the newest. For people. */
  history: Schema.optionalKey(Schema.Array(Schema.Struct({ ...StatusMoment.fields, status: SandboxStatus })))
}) {}

/** Content of `records/sb-<uuid>.json`. */
export const RecordFile = Schema.Struct({ version: Schema.Literal(2), owner: NodeId, record: SandboxRecord })

/** Content of `sandboxes.json`: the header whose replacement activates version 2. */
export const HeaderFile = Schema.Struct({
  version: Schema.Literal(2),
  owner: NodeId,
  sandboxes: Schema.Record(Schema.String, Schema.Never)
})

/** Content of `records/meta.json`. */
export const MetaFile = Schema.Struct({ version: Schema.Literal(2), owner: NodeId })

/** Content of `runtime/owner.json`: whose native state it is. */
export const RuntimeOwnerFile = Schema.Struct({ version: Schema.Literal(1), owner: NodeId })

/**
 * Content of a version-1 `sandboxes.json`: the whole registry in one file. Its records are read by the migration; an
 * empty one is also what a fresh version-2 layout grows from.
 */
export const SnapshotFile = Schema.Struct({
  version: Schema.Literal(1),
  owner: NodeId,
  sandboxes: Schema.Record(Schema.String, Schema.Unknown)
})
