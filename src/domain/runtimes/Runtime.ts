/**
 * The durable machine of a Project: what is wanted, kept apart from what was observed, and the recipe that builds
 * or removes the machine. The generation grows by one whenever the machine is replaced and fences late writers.
 */
import * as Schema from "effect/Schema"
import { SupervisorKind } from "../guests/GuestSpec.ts"
import { Generation, NodeId, ProjectId, SandboxId } from "../Identity.ts"

export const RuntimeObserved = Schema.Literals([
  "unprovisioned",
  "starting",
  "running",
  "stopped",
  "failed",
  "deleting",
  "deleted"
])
export type RuntimeObserved = typeof RuntimeObserved.Type

export const RuntimeDesired = Schema.Literals(["running", "stopped", "deleted"])
export type RuntimeDesired = typeof RuntimeDesired.Type

/** Everything needed to build or to remove a machine. Paths are canonical and absolute. */
export class MachineRecipe extends Schema.Class<MachineRecipe>("holdfast/MachineRecipe")({
  supervisor: Schema.Union([SupervisorKind, Schema.Literal("auto")]),
  /** `host`, or the absolute path of a root file system that somebody else owns and that is never removed. */
  image: Schema.String,
  cpuMillis: Schema.Int,
  memoryBytes: Schema.Int,
  processesMax: Schema.Int,
  node: NodeId,
  sandbox: SandboxId,
  generation: Generation,
  /** Disk directories that the runtime owns and that its deletion removes. The first is mounted at /workspace. */
  disks: Schema.Array(Schema.String),
  /** Directory of the host's that is mounted there instead: never made, given away or removed here. Source: SP-DEL-07. */
  adoptedDisk: Schema.optionalKey(Schema.String)
}) {}

/** The directory that the machine's guest has at /workspace, if it lies outside of the sandbox. */
export const workspaceOf = ({
  adoptedDisk,
  disks
}: Pick<MachineRecipe, "adoptedDisk" | "disks">): string | undefined => adoptedDisk ?? disks[0]

export class Runtime extends Schema.Class<Runtime>("holdfast/Runtime")({
  project: ProjectId,
  generation: Generation,
  sandbox: Schema.NullOr(SandboxId),
  desired: RuntimeDesired,
  observed: RuntimeObserved,
  observedReason: Schema.NullOr(Schema.String),
  recipe: Schema.NullOr(MachineRecipe),
  refreshEpoch: Schema.Int,
  /** Milliseconds since the epoch at which the stored sample was begun, or null. */
  sampleStartedAtMillis: Schema.NullOr(Schema.Int)
}) {}
