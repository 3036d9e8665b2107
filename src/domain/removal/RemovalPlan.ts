/**
 * What removing a Project's runtime would touch, and the pure decisions about it: which paths a description names,
 * whether the host's receipt lets the storage phase begin, and whether every path is confirmed. No I/O.
 */
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { ProjectDeletion } from "../host/Projects.ts"
import { ProjectId } from "../Identity.ts"
import type { MachineRecipe } from "../runtimes/Runtime.ts"
import type { Snapshot } from "../runtimes/SnapshotRows.ts"

/** Name under which the storage owner takes part in a Project's deletion. Source: SP-DEL-02. */
export const storageParticipant = "plugin:sandbox"

/** Canonical paths and labels, sorted, each once. Source: SP-DEL-05. */
export class RemovalDescription extends Schema.Class<RemovalDescription>("holdfast/RemovalDescription")({
  paths: Schema.Array(Schema.String),
  labels: Schema.Array(Schema.String)
}) {}

/** The host's own record does not let the storage phase begin. `missing` is the first condition that fails. */
export class RemovalNotAdmitted extends Schema.TaggedError<RemovalNotAdmitted>()("RemovalNotAdmitted", {
  project: ProjectId,
  missing: Schema.Literals([
    "deletion_record",
    "lifecycle_deleting",
    "state_pending",
    "participant",
    "preceding_steps"
  ])
}) {
  readonly code = "removal_not_admitted"
  override get message(): string {
    return `the storage of project ${this.project} is kept: its deletion lacks ${this.missing.replace("_", " ")}`
  }
}

/** What would be removed is not what was confirmed. Nothing is removed until it is confirmed again. */
export class ConfirmationNeeded extends Schema.TaggedError<ConfirmationNeeded>()("ConfirmationNeeded", {
  project: ProjectId,
  paths: Schema.Array(Schema.String)
}) {
  readonly code = "confirmation_needed"
  override get message(): string {
    return `deleting project ${this.project} would remove ${this.paths.length} paths that were not confirmed: preview the deletion and confirm again`
  }
}

/** Stored recipes cannot be read, so what they own cannot be told. Source: SP-DEL-06. */
export class MetadataUnreadable extends Schema.TaggedError<MetadataUnreadable>()("MetadataUnreadable", {
  project: ProjectId
}) {
  readonly code = "metadata_unreadable"
  override get message(): string {
    return `the stored machine recipes of project ${this.project} cannot be read: nothing is removed`
  }
}

/** A machine is being made right now, and what it will own is not written down yet. Source: SP-DEL-06. */
export class MetadataBusy extends Schema.TaggedError<MetadataBusy>()("MetadataBusy", {
  project: ProjectId
}) {
  readonly code = "metadata_busy"
  override get message(): string {
    return `a machine of project ${this.project} is being made: preview the deletion again in a moment`
  }
}

/** Where a sandbox's private state lies on this node. Pure; nothing is read. */
export class SandboxPaths extends Context.Service<
  SandboxPaths,
  { readonly pathOf: (sandbox: string) => string }
>()("holdfast/domain/removal/RemovalPlan/SandboxPaths") {}

/** A live foreign daemon works on the Project. Source: SP-DEL-08. */
export class RemovalBlocked extends Schema.TaggedError<RemovalBlocked>()("RemovalBlocked", {
  project: ProjectId,
  operation: Schema.String
}) {
  readonly code = "removal_blocked"
  override get message(): string {
    return `operation ${this.operation} of project ${this.project} is held by another live daemon: deletion waits for it`
  }
}

/** The first condition of SP-DEL-02 that fails, or none. */
export const missingCondition = (
  deletion: Option.Option<ProjectDeletion>,
  participant: string
): RemovalNotAdmitted["missing"] | undefined => {
  if (Option.isNone(deletion)) return "deletion_record"
  const record = deletion.value
  if (record.lifecycle !== "deleting") return "lifecycle_deleting"
  if (record.state !== "pending") return "state_pending"
  const index = record.participants.indexOf(participant)
  if (index === -1) return "participant"
  const done = new Set(record.completedSteps)
  return record.participants.slice(0, index).every((step) => done.has(step)) ? undefined : "preceding_steps"
}

/** What a Project's runtime owns by its durable records. */
export interface Owned {
  readonly recipes: ReadonlyArray<MachineRecipe>
  readonly snapshots: ReadonlyArray<Pick<Snapshot, "id" | "path">>
}

/**
 * Paths and labels of what is owned: every disk and every snapshot, the Project's storage root, and the private state of
 * every sandbox. Images belong to others and are never named. No recipe, no path. Source: SP-DEL-05, RG-DEL-07.
 */
export const describeOwned = (
  { recipes, snapshots }: Owned,
  owned: { readonly storageRoot: string; readonly sandboxPath: (sandbox: string) => string }
): RemovalDescription => {
  const paths = new Set<string>()
  const labels = new Set<string>()
  for (const recipe of recipes) {
    for (const disk of recipe.disks) paths.add(disk)
    paths.add(owned.storageRoot)
    paths.add(owned.sandboxPath(recipe.sandbox))
    labels.add(recipe.sandbox)
  }
  for (const { id, path } of snapshots) {
    paths.add(path)
    paths.add(owned.storageRoot)
    labels.add(`snapshot ${id}`)
  }
  return new RemovalDescription({ paths: [...paths].toSorted(), labels: [...labels].toSorted() })
}

/** Paths of the description that the receipt does not confirm. */
export const unconfirmedPaths = (
  description: RemovalDescription,
  confirmed: ReadonlyArray<string>
): ReadonlyArray<string> => {
  const known = new Set(confirmed)
  return description.paths.filter((path) => !known.has(path))
}
