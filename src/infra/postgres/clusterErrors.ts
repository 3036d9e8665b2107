/**
 * What keeps the embedded PostgreSQL from running: a refusal, which the operator can mend, or a failure of a step.
 * Neither carries the server's own text: that stays in the cluster's private log.
 */
import * as Schema from "effect/Schema"

const sentences = {
  cluster_home_unreachable:
    "cannot be reached by the user that runs the database: make every directory above it traversable, or choose another home",
  cluster_home_foreign:
    "belongs to another user or is not a directory: choose another home or give it to the user that runs the database",
  cluster_socket_path_too_long: "makes the path of the database socket too long: choose a shorter home",
  cluster_in_use: "is in use by a running database server: stop the other daemon first",
  cluster_version_mismatch:
    "was written by another major version of PostgreSQL: upgrade its data, or run the version of the product that wrote it",
  cluster_user_missing:
    "needs an unprivileged user for the database server, and neither postgres nor nobody exists: create one"
} as const

export const ClusterRefusedCode = Schema.Literals([
  "cluster_home_unreachable",
  "cluster_home_foreign",
  "cluster_socket_path_too_long",
  "cluster_in_use",
  "cluster_version_mismatch",
  "cluster_user_missing"
])
export type ClusterRefusedCode = typeof ClusterRefusedCode.Type

/** The cluster is not started because of what it was given. Nothing was written below the path. */
export class ClusterRefused extends Schema.TaggedError<ClusterRefused>()("ClusterRefused", {
  code: ClusterRefusedCode,
  path: Schema.String
}) {
  override get message(): string {
    return `the database home ${this.path} ${sentences[this.code]}`
  }
}

export const ClusterStep = Schema.Literals(["binaries", "home", "initialize", "start", "run"])
export type ClusterStep = typeof ClusterStep.Type

/** A step of the embedded cluster failed. `detail` is a sentence of ours; the server's words are in its log. */
export class ClusterFailed extends Schema.TaggedError<ClusterFailed>()("ClusterFailed", {
  step: ClusterStep,
  detail: Schema.String
}) {
  readonly code = "cluster_failed"
  override get message(): string {
    return `the embedded database failed to ${this.step === "binaries" ? "find its binaries" : this.step}: ${this.detail}`
  }
}
