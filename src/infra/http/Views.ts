/**
 * What the API shows: plain data, written for its readers and not for its writers. A view never holds an
 * environment, a token, a claimant's process or a stored recipe; times are milliseconds since the epoch.
 */
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import { DesktopState } from "../../domain/desktop/Desktop.ts"
import { ExecutionEvent, SupervisorKind } from "../../domain/guests/GuestSpec.ts"
import { Initiator } from "../../domain/host/Accounts.ts"
import { Generation, LeaseId, OperationId, ProjectId, RequestKey, SnapshotId } from "../../domain/Identity.ts"
import { OperationAction, OperationState } from "../../domain/operations/Operation.ts"
import { SnapshotState } from "../../domain/runtimes/SnapshotRows.ts"
import { operationWhySteps } from "../../domain/operations/why.ts"
import { RuntimeDesired, RuntimeObserved } from "../../domain/runtimes/Runtime.ts"
import { RepositoryName } from "../../domain/leases/RepositoryClaim.ts"
import { BranchName, WorktreeName, WorktreeState } from "../../domain/worktrees/Worktree.ts"
import { MetricReading } from "../../domain/sampling/MetricReading.ts"

/** One thing that was looked at. `advice` says what to do when it is not ok, else null. */
export const CheckView = Schema.Struct({
  name: Schema.String,
  state: Schema.Literals(["ok", "warning", "failed"]),
  detail: Schema.String,
  advice: Schema.NullOr(Schema.String)
})
export type CheckView = typeof CheckView.Type

/** `degraded` when a check failed: the daemon answers, and something that it needs does not. */
export const HealthView = Schema.Struct({
  status: Schema.Literals(["ok", "degraded"]),
  version: Schema.String,
  /** Id of the node whose registry the daemon holds. */
  node: Schema.String,
  checks: Schema.Array(CheckView)
})
export type HealthView = typeof HealthView.Type

export const DoctorView = Schema.Struct({ checks: Schema.Array(CheckView) })
export type DoctorView = typeof DoctorView.Type

export const ProjectView = Schema.Struct({
  id: ProjectId,
  name: Schema.String,
  lifecycle: Schema.Literals(["active", "deleting"]),
  createdAtMillis: Schema.Int
})
export type ProjectView = typeof ProjectView.Type

/** What a deletion would remove. Confirming means sending these paths back. Source: SP-DEL-05, SP-DEL-07. */
export const DeletionPreviewView = Schema.Struct({
  project: ProjectId,
  name: Schema.String,
  paths: Schema.Array(Schema.String),
  labels: Schema.Array(Schema.String)
})
export type DeletionPreviewView = typeof DeletionPreviewView.Type

/** A deletion as far as it has come. `proofs` are sentences, one for each guest that was proved absent. */
export const DeletionView = Schema.Struct({
  project: ProjectId,
  name: Schema.String,
  state: Schema.Literals(["pending", "completed"]),
  participants: Schema.Array(Schema.String),
  completedSteps: Schema.Array(Schema.String),
  confirmedPaths: Schema.Array(Schema.String),
  proofs: Schema.Array(Schema.String),
  failureCode: Schema.NullOr(Schema.String),
  /** It has stopped so often that somebody has to look at it; it is tried on, less often. Source: FC-09. */
  needsOperator: Schema.Boolean
})
export type DeletionView = typeof DeletionView.Type

/** What a live operation waits for: one sentence, since when, and the kind of thing. Source: FC-06. */
export const WaitingView = Schema.Struct({
  kind: Schema.Literals(["node", "operations", "place"]),
  for: Schema.String,
  sinceMillis: Schema.Int
})
export type WaitingView = typeof WaitingView.Type

export const OperationView = Schema.Struct({
  id: OperationId,
  project: ProjectId,
  action: OperationAction,
  requestId: RequestKey,
  /** Of the machine that it works on; of its new machine, once that has taken the old one's place. */
  generation: Generation,
  initiator: Initiator,
  state: OperationState,
  /** Null while somebody carries it out, and once it is settled. */
  waiting: Schema.NullOr(WaitingView),
  step: Schema.NullOr(Schema.String),
  /** 0 to 1, by the weights of the steps. */
  fraction: Schema.Finite,
  message: Schema.NullOr(Schema.String),
  result: Schema.NullOr(
    Schema.Struct({ paths: Schema.Array(Schema.String), proofs: Schema.Array(Schema.String) })
  ),
  error: Schema.NullOr(Schema.Struct({ code: Schema.String, message: Schema.String })),
  /** Id of the account that superseded it, or `system`. Source: FC-22. */
  supersededBy: Schema.NullOr(Schema.String),
  /** Id of the account that asked to take it back while the node of its claim was not seen. Source: FC-06. */
  supersedeAskedBy: Schema.NullOr(Schema.String),
  createdAtMillis: Schema.Int,
  settledAtMillis: Schema.NullOr(Schema.Int)
})
export type OperationView = typeof OperationView.Type

/** Why an operation is what it is, from the request to its end. Source: BX-02. */
export const OperationWhyView = Schema.Struct({
  operation: OperationId,
  steps: Schema.Array(
    Schema.Struct({
      step: Schema.Literals(operationWhySteps),
      atMillis: Schema.NullOr(Schema.Int),
      actor: Schema.NullOr(Schema.String),
      told: Schema.String,
      facts: Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Finite]))
    })
  )
})
export type OperationWhyView = typeof OperationWhyView.Type

export const RuntimeView = Schema.Struct({
  generation: Generation,
  desired: RuntimeDesired,
  observed: RuntimeObserved,
  observedReason: Schema.NullOr(Schema.String),
  sandbox: Schema.NullOr(Schema.String),
  /** What was asked for, perhaps `auto`. */
  supervisor: Schema.NullOr(Schema.String),
  /** Who carries the guest now, by the guest's own identity; null while none is known to live on this node. */
  carriedBy: Schema.NullOr(SupervisorKind),
  image: Schema.NullOr(Schema.String),
  cpuMillis: Schema.NullOr(Schema.Int),
  memoryBytes: Schema.NullOr(Schema.Int),
  processesMax: Schema.NullOr(Schema.Int)
})
export type RuntimeView = typeof RuntimeView.Type

/** A managed worktree. `path` is where it lies inside the sandbox. */
export const WorktreeView = Schema.Struct({
  name: WorktreeName,
  repository: RepositoryName,
  branch: BranchName,
  path: Schema.String,
  state: WorktreeState,
  createdAtMillis: Schema.Int
})
export type WorktreeView = typeof WorktreeView.Type

/** A copy of a workspace. `bytes` are those of the disk, null while the copy is made; where it lies is not told. */
export const SnapshotView = Schema.Struct({
  id: SnapshotId,
  state: SnapshotState,
  bytes: Schema.NullOr(Schema.Int),
  /** Of the machine whose workspace it is. */
  generation: Generation,
  operation: OperationId,
  createdAtMillis: Schema.Int
})
export type SnapshotView = typeof SnapshotView.Type

/**
 * The runtime as the plugin's own route shows it: one snapshot of what is stored. No machine was asked, so it does not
 * say who carries the guest. Source: SP-HTTP-03.
 */
export const EnvironmentView = Schema.Struct({
  project: ProjectId,
  runtime: Schema.NullOr(Schema.Struct(Struct.omit(RuntimeView.fields, ["carriedBy"]))),
  liveOperation: Schema.NullOr(OperationView),
  operations: Schema.Array(OperationView)
})
export type EnvironmentView = typeof EnvironmentView.Type

/** Something that runs in the guest now: its execution lease. */
export const ExecutionView = Schema.Struct({
  id: LeaseId,
  generation: Generation,
  label: Schema.String,
  cancel: Schema.Literals(["none", "requested", "verified"]),
  admittedAtMillis: Schema.Int
})
export type ExecutionView = typeof ExecutionView.Type

/** The stored sample. A figure that was never measured is null, never zero; a stale one says so. */
export const SampleView = Schema.Struct({
  startedAtMillis: Schema.Int,
  metrics: Schema.Record(Schema.String, MetricReading)
})
export type SampleView = typeof SampleView.Type

export const AmountView = Schema.Struct({
  sandboxes: Schema.Int,
  cpuMillis: Schema.Int,
  memoryBytes: Schema.Int
})
export type AmountView = typeof AmountView.Type

/** What the node has given out, and what it has in all. */
export const ChargesView = Schema.Struct({ used: AmountView, capacity: AmountView })
export type ChargesView = typeof ChargesView.Type

/** One Project as of now. `operations` are its receipts, newest first. */
export const StatusView = Schema.Struct({
  project: ProjectView,
  runtime: Schema.NullOr(RuntimeView),
  liveOperation: Schema.NullOr(OperationView),
  operations: Schema.Array(OperationView),
  executions: Schema.Array(ExecutionView),
  sample: Schema.NullOr(SampleView),
  charges: ChargesView
})
export type StatusView = typeof StatusView.Type

export const BucketView = Schema.Struct({
  bucketMillis: Schema.Int,
  minimum: Schema.Int,
  maximum: Schema.Int,
  /** Sum of the samples, as a decimal text: it is exact beyond the safe integers. */
  total: Schema.BigInt,
  samples: Schema.Int
})
export type BucketView = typeof BucketView.Type

/** Buckets of a Project's history, oldest first: minutes of a day, hours of thirty days. Source: SP-RES. */
export const HistoryView = Schema.Struct({
  metrics: Schema.Array(
    Schema.Struct({
      metric: Schema.String,
      minutes: Schema.Array(BucketView),
      hours: Schema.Array(BucketView)
    })
  )
})
export type HistoryView = typeof HistoryView.Type

/** A Project's desktop; `display` is null unless one is admitted. Source: SP-DESK-05. */
export const DesktopView = Schema.Struct({
  state: DesktopState,
  display: Schema.NullOr(
    Schema.Struct({
      /** The execution that carries it, which can be cancelled like the others. */
      execution: LeaseId,
      generation: Generation,
      /** Value of DISPLAY for programs in the sandbox. */
      name: Schema.String,
      startedAtMillis: Schema.Int,
      viewers: Schema.Int
    })
  )
})
export type DesktopView = typeof DesktopView.Type

const OutputStream = ExecutionEvent.cases.Output.fields.stream

/**
 * One line of a running command's stream. `started` comes first; exactly one of `exited` and `failed` comes last,
 * unless the connection broke, and then the command is cancelled.
 */
export const ExecutionLine = Schema.Union([
  Schema.Struct({ type: Schema.Literal("started"), execution: LeaseId }),
  /** `data` is base64: output is bytes, not text. */
  Schema.Struct({ type: Schema.Literal("output"), stream: OutputStream, data: Schema.Uint8ArrayFromBase64 }),
  Schema.Struct({ type: Schema.Literal("truncated"), stream: OutputStream, bytesMax: Schema.Int }),
  Schema.Struct({
    type: Schema.Literal("exited"),
    exitCode: Schema.Int,
    ended: ExecutionEvent.cases.Exited.fields.ended
  }),
  Schema.Struct({ type: Schema.Literal("failed"), code: Schema.String, message: Schema.String })
])
export type ExecutionLine = typeof ExecutionLine.Type
