/**
 * From the domain's models to what the API shows. Pure. What a view leaves out (recipes, parameters, accounts,
 * claimants, processes) leaves no other way either.
 */
import * as Option from "effect/Option"
import * as Struct from "effect/Struct"
import type { DesktopDescription } from "../../domain/desktop/Desktop.ts"
import type { SupervisorKind } from "../../domain/guests/GuestSpec.ts"
import type { NodeCapacity, NodeCharges } from "../../domain/registry/Registry.ts"
import { type DeletionRecord, needsOperator } from "../../domain/host/DeletionStore.ts"
import type { Project } from "../../domain/host/ProjectStore.ts"
import type { HistoryPoint } from "../../domain/history/History.ts"
import type { ObservedLease } from "../../domain/leases/Lease.ts"
import type { ProjectId } from "../../domain/Identity.ts"
import { machineGenerationOf, type Operation } from "../../domain/operations/Operation.ts"
import type { Overview } from "../../domain/operations/OperationStore.ts"
import { type QueueSight, waitingOf } from "../../domain/operations/waiting.ts"
import type { Runtime } from "../../domain/runtimes/Runtime.ts"
import type { Snapshot } from "../../domain/runtimes/SnapshotRows.ts"
import { type Worktree, worktreePath } from "../../domain/worktrees/Worktree.ts"
import type {
  BucketView,
  DesktopView,
  ChargesView,
  DeletionView,
  EnvironmentView,
  ExecutionView,
  HistoryView,
  OperationView,
  ProjectView,
  RuntimeView,
  SnapshotView,
  WorktreeView
} from "./Views.ts"

export const projectView = (project: Project): ProjectView => ({
  id: project.id,
  name: project.name,
  lifecycle: project.lifecycle,
  createdAtMillis: project.createdAtMillis
})

export const deletionView = (record: DeletionRecord): DeletionView => ({
  project: record.project,
  name: record.name,
  state: record.state,
  participants: record.participants,
  completedSteps: record.completedSteps,
  confirmedPaths: record.confirmedPaths,
  proofs: record.proofs,
  failureCode: record.failureCode,
  needsOperator: needsOperator(record)
})

/** A receipt as its readers see it, with what a live one waits for. */
export const operationView = (
  operation: Operation,
  sights: ReadonlyArray<QueueSight> = []
): OperationView => ({
  id: operation.id,
  project: operation.project,
  action: operation.action,
  requestId: operation.requestKey,
  generation: machineGenerationOf(operation),
  initiator: operation.initiator,
  state: operation.state,
  waiting: waitingOf(
    operation,
    sights.find((sight) => sight.operation === operation.id)
  ),
  step: operation.step,
  fraction: operation.fraction,
  message: operation.message,
  result:
    operation.result === null ? null : { paths: operation.result.paths, proofs: operation.result.proofs },
  error:
    operation.errorCode === null ? null : { code: operation.errorCode, message: operation.errorText ?? "" },
  supersededBy: operation.supersededBy,
  supersedeAskedBy: operation.supersedeAskedBy,
  createdAtMillis: operation.createdAtMillis,
  settledAtMillis: operation.settledAtMillis
})

/** A runtime with the limits of its recipe, and who was seen to carry its guest. */
export const runtimeView = (runtime: Runtime, carriedBy: SupervisorKind | null): RuntimeView => ({
  generation: runtime.generation,
  desired: runtime.desired,
  observed: runtime.observed,
  observedReason: runtime.observedReason,
  sandbox: runtime.sandbox,
  supervisor: runtime.recipe?.supervisor ?? null,
  carriedBy,
  image: runtime.recipe?.image ?? null,
  cpuMillis: runtime.recipe?.cpuMillis ?? null,
  memoryBytes: runtime.recipe?.memoryBytes ?? null,
  processesMax: runtime.recipe?.processesMax ?? null
})

export const snapshotView = (snapshot: Snapshot): SnapshotView => ({
  id: snapshot.id,
  state: snapshot.state,
  bytes: snapshot.bytes,
  generation: snapshot.generation,
  operation: snapshot.operation,
  createdAtMillis: snapshot.createdAtMillis
})

export const worktreeView = (worktree: Worktree): WorktreeView => ({
  name: worktree.name,
  repository: worktree.repository,
  branch: worktree.branch,
  path: worktreePath(worktree),
  state: worktree.state,
  createdAtMillis: worktree.createdAtMillis
})

/** The same of one snapshot, without anybody having looked at the machine. */
export const environmentView = (
  project: ProjectId,
  { live, newest, runtime, sights }: Overview & { readonly sights: ReadonlyArray<QueueSight> }
): EnvironmentView => ({
  project,
  runtime: Option.getOrNull(
    Option.map(runtime, (stored) => Struct.omit(runtimeView(stored, null), ["carriedBy"]))
  ),
  liveOperation: Option.getOrNull(Option.map(live, (operation) => operationView(operation, sights))),
  operations: newest.map((operation) => operationView(operation, sights))
})

export const executionView = (lease: ObservedLease): ExecutionView => ({
  id: lease.id,
  generation: lease.generation,
  label: lease.label,
  cancel: lease.cancel,
  admittedAtMillis: lease.admittedAtMillis
})

/** What is given out and what there is in all. */
export const chargesView = (charges: NodeCharges, capacity: NodeCapacity): ChargesView => ({
  used: { sandboxes: charges.sandboxes, cpuMillis: charges.cpuMillis, memoryBytes: charges.memoryBytes },
  capacity: {
    sandboxes: capacity.sandboxes,
    cpuMillis: capacity.cpuMillis,
    memoryBytes: capacity.memoryBytes
  }
})

export const desktopView = ({ display, state }: DesktopDescription): DesktopView => ({
  state,
  display: display === null ? null : { ...display }
})

const bucketView = (point: HistoryPoint): BucketView => ({
  bucketMillis: point.bucketMillis,
  minimum: point.minimum,
  maximum: point.maximum,
  total: point.total,
  samples: point.samples
})

/** Both resolutions by metric; a metric without a bucket is left out. */
export const historyView = (
  minutes: ReadonlyArray<HistoryPoint>,
  hours: ReadonlyArray<HistoryPoint>
): HistoryView => {
  const metrics = [...new Set([...minutes, ...hours].map(({ metric }) => metric))]
  const of = (points: ReadonlyArray<HistoryPoint>, metric: string) =>
    points.filter((point) => point.metric === metric).map(bucketView)
  return {
    metrics: metrics.map((metric) => ({ metric, minutes: of(minutes, metric), hours: of(hours, metric) }))
  }
}
