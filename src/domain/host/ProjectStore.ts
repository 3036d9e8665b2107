/**
 * Port of the host's Projects for the host itself: who owns this daemon's socket, creating, finding and listing
 * Projects, and the notes that people read. A plugin's view inside its own transaction is Projects.ts; the deletion
 * has its own store and program. Every method is a standalone statement or a transaction of its own.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type AccountId, ProjectId } from "../Identity.ts"
import type { OutsideTransaction, StorageError } from "../persistence/PluginDb.ts"
import type { AccessRefused, Caller } from "./Accounts.ts"

export const ProjectLifecycle = Schema.Literals(["active", "deleting"])
export type ProjectLifecycle = typeof ProjectLifecycle.Type

export class Project extends Schema.Class<Project>("holdfast/Project")({
  id: ProjectId,
  name: Schema.String,
  lifecycle: ProjectLifecycle,
  createdAtMillis: Schema.Int
}) {}

/** The name cannot be a Project's: it must also be told from an id, and fit a host name. */
export class ProjectNameRefused extends Schema.TaggedError<ProjectNameRefused>()("ProjectNameRefused", {
  why: Schema.String
}) {
  readonly code = "project_name_refused"
  override get message(): string {
    return `the name is refused: ${this.why}`
  }
}

export class ProjectNameTaken extends Schema.TaggedError<ProjectNameTaken>()("ProjectNameTaken", {
  name: Schema.String
}) {
  readonly code = "project_name_taken"
  override get message(): string {
    return `there is a project ${this.name} already: choose another name`
  }
}

/** The tenant has as many Projects as it may have. Source: FC-15. */
export class ProjectsFull extends Schema.TaggedError<ProjectsFull>()("ProjectsFull", {
  projectsMax: Schema.Int
}) {
  readonly code = "projects_full"
  override get message(): string {
    return `the tenant has ${this.projectsMax} projects, as many as it may have: delete one first`
  }
}

/** No such Project, or none that the caller may see; it does not tell which. */
export class ProjectNotFound extends Schema.TaggedError<ProjectNotFound>()("ProjectNotFound", {
  project: Schema.String
}) {
  readonly code = "project_not_found"
  override get message(): string {
    return `there is no project ${this.project}: \`holdfast project list\` shows those that you may see`
  }
}

const namePattern = /^(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/** Why the name cannot be a Project's, or null. */
export const nameFault = (name: string): string | null =>
  namePattern.test(name)
    ? null
    : "it must be 1 to 63 lower-case letters, digits and inner hyphens, with at least one letter"

/** What people are told about a Project. Ids and our own sentence only. */
export interface Alert {
  readonly project: ProjectId
  readonly kind: string
  readonly message: string
}

/** One line of the audit log. `actor` is the caller's name, or the product's own part. */
export interface AuditEntry {
  readonly account: AccountId | null
  readonly actor: string
  readonly action: string
  readonly project: ProjectId | null
  readonly outcome: string
}

export class ProjectStore extends Context.Service<
  ProjectStore,
  {
    /** The local tenant and its administrator, made when they are missing: whoever owns the daemon's socket. */
    readonly bootstrap: Effect.Effect<Caller, StorageError>
    /** Creates an active Project and makes the caller its owner, in one statement that checks the account again. */
    readonly create: (
      caller: Caller,
      name: string
    ) => Effect.Effect<
      Project,
      ProjectNameRefused | ProjectNameTaken | ProjectsFull | AccessRefused | StorageError
    >
    /** By canonical id when the reference is one, else by name; only what the caller may see. */
    readonly find: (caller: Caller, reference: string) => Effect.Effect<Option.Option<Project>, StorageError>
    /** What the caller may see, in the order of ids, after `after`; at most `projectListMax`. */
    readonly list: (caller: Caller, after: number) => Effect.Effect<ReadonlyArray<Project>, StorageError>
    /** Raises an alert with the Project's label as it is now. In no transaction of anybody. Source: SP-ADM-06. */
    readonly raiseAlert: (alert: Alert) => Effect.Effect<void, StorageError>
    readonly audit: (entry: AuditEntry) => Effect.Effect<void, StorageError>
  }
>()("holdfast/domain/host/ProjectStore") {
  declare readonly [OutsideTransaction]: true
}
