/**
 * Port of the host's Projects as a plugin sees them inside its own transaction, and the refusals that come from
 * there. Creating and deleting Projects is the host's business: ProjectStore.ts and projectDeletion.ts.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ProjectId } from "../Identity.ts"
import type { PluginTx, StorageFailure, TransactionEnded } from "../persistence/PluginDb.ts"

/** The Project does not exist, or is being deleted. */
export class ProjectNotActive extends Schema.TaggedError<ProjectNotActive>()("ProjectNotActive", {
  project: ProjectId
}) {
  readonly code = "project_not_active"
  override get message(): string {
    return `project ${this.project} is not active: it does not exist or is being deleted`
  }
}

/** The host's record of a Project's deletion. `completedSteps` are names of participants, in their order. */
export class ProjectDeletion extends Schema.Class<ProjectDeletion>("holdfast/ProjectDeletion")({
  project: ProjectId,
  lifecycle: Schema.Literals(["active", "deleting"]),
  state: Schema.Literals(["pending", "completed"]),
  participants: Schema.Array(Schema.String),
  completedSteps: Schema.Array(Schema.String),
  confirmedPaths: Schema.Array(Schema.String)
}) {}

export class HostProjects extends Context.Service<
  HostProjects,
  {
    /** Holds the active Project's row FOR SHARE until the transaction ends. Source: SP-ADM-01, SP-ADM-02. */
    readonly requireActive: (
      project: ProjectId
    ) => Effect.Effect<void, ProjectNotActive | StorageFailure | TransactionEnded, PluginTx>
    /** The deletion record with the Project's lifecycle, or none. */
    readonly deletion: (
      project: ProjectId
    ) => Effect.Effect<Option.Option<ProjectDeletion>, StorageFailure | TransactionEnded, PluginTx>
  }
>()("holdfast/domain/host/Projects/HostProjects") {}
