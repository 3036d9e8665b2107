/**
 * What the node's API shows of a sandbox: plain data. A view never holds a value of an environment or an endpoint
 * token; times are milliseconds since the epoch by the node's clock. Source: RG-REC-02.
 */
import * as Schema from "effect/Schema"
import { SupervisorKind } from "../../../domain/guests/GuestSpec.ts"
import { Generation, NodeId, SandboxId } from "../../../domain/Identity.ts"
import { SandboxStatus } from "../../../domain/registry/Record.ts"
import { whySteps } from "../../../domain/registry/why.ts"
import { ChargesView } from "../Views.ts"

/** What the newest pass of a sweep came to; `why`: why the pass itself failed. Source: FC-05. */
export const SweepView = Schema.Struct({
  sweep: Schema.String,
  attempted: Schema.Int,
  done: Schema.Int,
  failed: Schema.Int,
  why: Schema.NullOr(Schema.String),
  atMillis: Schema.Int
})

/**
 * Live is whoever answers. `storage_failed` refuses everything until a restart; `starting` has not looked yet;
 * `degraded` does what it is asked for, but nothing of one of its own sweeps succeeded.
 */
export const ReadinessView = Schema.Struct({
  live: Schema.Literal(true),
  state: Schema.Literals(["ready", "starting", "degraded", "storage_failed"]),
  why: Schema.NullOr(Schema.String),
  version: Schema.String,
  node: NodeId,
  supervisor: SupervisorKind,
  /** Of the node's own sweeps, each from its first pass on. */
  sweeps: Schema.Array(SweepView),
  /** Null while the registry cannot be read. */
  charges: Schema.NullOr(ChargesView)
})
export type ReadinessView = typeof ReadinessView.Type

/** One line of a listing. */
export const SandboxSummary = Schema.Struct({
  sandbox: SandboxId,
  /** Key under which it was asked for; null: by a program of the host. */
  requestId: Schema.NullOr(Schema.String),
  status: SandboxStatus,
  statusReason: Schema.NullOr(Schema.String),
  deleting: Schema.Boolean,
  image: Schema.String,
  cpuMillis: Schema.Int,
  memoryBytes: Schema.Int,
  createdAtMillis: Schema.Int,
  expiresAtMillis: Schema.Int
})
export type SandboxSummary = typeof SandboxSummary.Type

export const SandboxView = Schema.Struct({
  ...SandboxSummary.fields,
  generation: Generation,
  argv: Schema.Array(Schema.String),
  /** Names only: the values are secrets. */
  environment: Schema.Array(Schema.String),
  metadata: Schema.Record(Schema.String, Schema.String),
  processesMax: Schema.Int,
  deletion: Schema.NullOr(
    Schema.Struct({ reason: Schema.String, actor: Schema.String, requestedAtMillis: Schema.Int })
  )
})
export type SandboxView = typeof SandboxView.Type

/** The sandbox with what was seen of its guest at this very request. */
export const InspectionView = Schema.Struct({
  ...SandboxView.fields,
  ready: Schema.Boolean,
  notReadyBecause: Schema.NullOr(Schema.String)
})
export type InspectionView = typeof InspectionView.Type

/** `deleted` comes with the proof of absence, `pending` with what still stands in the way; then the node goes on. */
export const SandboxDeletionView = Schema.Struct({
  sandbox: SandboxId,
  state: Schema.Literals(["deleted", "pending"]),
  /** One sentence. */
  proof: Schema.NullOr(Schema.String),
  evidence: Schema.NullOr(Schema.String),
  observedAtMillis: Schema.NullOr(Schema.Int),
  inTheWay: Schema.NullOr(Schema.String)
})
export type SandboxDeletionView = typeof SandboxDeletionView.Type

/** A UNIX socket of the daemon's user that leads to the TCP port of the guest's loopback. */
export const EndpointView = Schema.Struct({ sandbox: SandboxId, port: Schema.Int, path: Schema.String })
export type EndpointView = typeof EndpointView.Type

export const WhyView = Schema.Struct({
  sandbox: SandboxId,
  steps: Schema.Array(
    Schema.Struct({
      step: Schema.Literals(whySteps),
      atMillis: Schema.NullOr(Schema.Int),
      actor: Schema.NullOr(Schema.String),
      told: Schema.String,
      facts: Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Finite]))
    })
  )
})
export type WhyView = typeof WhyView.Type
