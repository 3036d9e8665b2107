/** Adapter of the host's Projects as a plugin sees them: statements on the caller's transaction, in schema `core`. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { HostProjects, ProjectDeletion, ProjectNotActive } from "../../domain/host/Projects.ts"
import type { ProjectId } from "../../domain/Identity.ts"
import { PluginTx, type SqlRow } from "../../domain/persistence/PluginDb.ts"

/** SQLSTATE that `core.require_active_project` raises. */
export const projectNotActiveState = "HF001"

const deletionOf = (project: ProjectId, row: SqlRow): ProjectDeletion =>
  new ProjectDeletion({
    project,
    lifecycle: row["lifecycle"] as ProjectDeletion["lifecycle"],
    state: row["state"] as ProjectDeletion["state"],
    participants: row["participants"] as ReadonlyArray<string>,
    completedSteps: row["completed_steps"] as ReadonlyArray<string>,
    confirmedPaths: row["confirmed_paths"] as ReadonlyArray<string>
  })

export const layer: Layer.Layer<HostProjects> = Layer.succeed(
  HostProjects,
  HostProjects.of({
    requireActive: (project) =>
      Effect.flatMap(PluginTx, (tx) =>
        tx.query({
          operation: "HostProjects.requireActive",
          text: "select core.require_active_project($1::bigint)",
          parameters: [project]
        })
      ).pipe(
        Effect.catchTag("StorageFailure", (failure) =>
          Effect.fail(failure.state === projectNotActiveState ? new ProjectNotActive({ project }) : failure)
        ),
        Effect.asVoid
      ),
    deletion: (project) =>
      Effect.flatMap(PluginTx, (tx) =>
        tx.query({
          operation: "HostProjects.deletion",
          text: `select p.lifecycle, d.state, d.participants, d.completed_steps, d.confirmed_paths
            from core.project_deletions d join core.projects p on p.id = d.project_id
            where d.project_id = $1::bigint`,
          parameters: [project]
        })
      ).pipe(
        Effect.map(([row]) => (row === undefined ? Option.none() : Option.some(deletionOf(project, row))))
      )
  })
)

const refuse = () => Effect.die(new Error("this fixture has no host: nothing may be looked up in it"))

/** A binding for fixtures that have SQL and no host: it is there, and only an actual look-up dies. Source: SP-TEST-02. */
export const layerRefusing: Layer.Layer<HostProjects> = Layer.succeed(
  HostProjects,
  HostProjects.of({ requireActive: refuse, deletion: refuse })
)
