/**
 * The claim of a repository: it says that somebody works on one repository of a Project now, such as git on its
 * worktrees. Here are its model and the refusals; who makes one is in repository.ts.
 */
import * as Schema from "effect/Schema"
import { repositoryNameCharactersMax } from "../Bounds.ts"
import { Generation, LeaseId, ProjectId, SandboxId } from "../Identity.ts"

/**
 * A repository by its path below the workspace, in segments of letters, digits, `_`, `-` and dots, none of them only
 * dots: one repository has one name, as long as no symbolic link of the guest leads to it. At most
 * `repositoryNameCharactersMax` characters.
 */
export const RepositoryName = Schema.String.check(
  Schema.isPattern(/^(?!\.+(\/|$))[A-Za-z0-9_.-]+(\/(?!\.+(\/|$))[A-Za-z0-9_.-]+)*$/),
  Schema.isMaxLength(repositoryNameCharactersMax)
).pipe(Schema.brand("RepositoryName"))
export type RepositoryName = typeof RepositoryName.Type

/** A claim as its holder knows it. `process` is the written form of the holder's identity. */
export class RepositoryClaim extends Schema.Class<RepositoryClaim>("holdfast/RepositoryClaim")({
  id: LeaseId,
  project: ProjectId,
  repository: RepositoryName,
  generation: Generation,
  /** The guest in which the repository is worked on. */
  sandbox: SandboxId,
  process: Schema.String
}) {}

/** A claim as a reader found it in the table. Its age is counted by the database's clock. Source: FC-11. */
export class ObservedClaim extends Schema.Class<ObservedClaim>("holdfast/ObservedClaim")({
  ...RepositoryClaim.fields,
  claimedAtMillis: Schema.Int,
  heartbeatAgeMillis: Schema.Int
}) {}

/**
 * Somebody else works on the repository and did not end in time. `holder` is the process, and `sinceMillis` when it
 * claimed the repository by the database's clock; null where that claim is only being made. Source: SP-LEASE-02.
 */
export class RepositoryBusy extends Schema.TaggedError<RepositoryBusy>()("RepositoryBusy", {
  project: ProjectId,
  repository: RepositoryName,
  holder: Schema.NullOr(Schema.String),
  sinceMillis: Schema.NullOr(Schema.Int)
}) {
  readonly code = "repository_busy"
  override get message(): string {
    const who = this.holder === null ? "is being claimed" : `is worked on by process ${this.holder}`
    return `repository ${this.repository} of project ${this.project} ${who}: ask again when it is free`
  }
}

/** The Project has as many claimed repositories as it may have. Source: FC-15. */
export class RepositoriesFull extends Schema.TaggedError<RepositoriesFull>()("RepositoriesFull", {
  project: ProjectId,
  repositoriesMax: Schema.Int
}) {
  readonly code = "repositories_full"
  override get message(): string {
    return `project ${this.project} has ${this.repositoriesMax} repositories that are worked on, as many as it may have: ask again when one is free`
  }
}
