/**
 * What a request for an operation can be refused with, apart from what the host refuses (ProjectNotActive,
 * AccessRefused). Which refusal meets which rows is decided in admissionDecision.ts and parameters.ts.
 */
import * as Schema from "effect/Schema"
import { Generation, OperationId, ProjectId, RequestKey } from "../Identity.ts"
import { OperationAction, OperationState } from "./Operation.ts"

/** A parameter is absurd. Nothing was read or written. Source: SP figures. */
export class InvalidParameters extends Schema.TaggedError<InvalidParameters>()("InvalidParameters", {
  field: Schema.String,
  why: Schema.String
}) {
  readonly code = "invalid_parameters"
  override get message(): string {
    return `${this.field} ${this.why}`
  }
}

/** Deleting a runtime is part of deleting its Project, and asked for there. Source: SP-DEL-04. */
export class ProjectDeletionRequired extends Schema.TaggedError<ProjectDeletionRequired>()(
  "ProjectDeletionRequired",
  { project: ProjectId }
) {
  readonly code = "project_deletion_required"
  override get message(): string {
    return `the runtime of project ${this.project} is removed by deleting the project: ask for that instead`
  }
}

/** The key was used for another request. Source: SP-ADM-07. */
export class RequestKeyConflict extends Schema.TaggedError<RequestKeyConflict>()("RequestKeyConflict", {
  project: ProjectId,
  requestKey: RequestKey,
  operation: OperationId
}) {
  readonly code = "request_key_conflict"
  override get message(): string {
    return `request ${this.requestKey} of project ${this.project} already asked for something else (operation ${this.operation}): use another key`
  }
}

/** The machine was replaced since the caller looked. Source: SP-ADM-08. */
export class GenerationConflict extends Schema.TaggedError<GenerationConflict>()("GenerationConflict", {
  project: ProjectId,
  expected: Generation,
  actual: Generation
}) {
  readonly code = "generation_conflict"
  override get message(): string {
    return `the runtime of project ${this.project} has generation ${this.actual}, not ${this.expected}: read it again`
  }
}

/** Another operation is live on the runtime. Source: SP-ADM-09. */
export class OperationInProgress extends Schema.TaggedError<OperationInProgress>()("OperationInProgress", {
  project: ProjectId,
  operation: OperationId,
  action: OperationAction,
  state: OperationState
}) {
  readonly code = "operation_in_progress"
  override get message(): string {
    return `operation ${this.operation} (${this.action}) on project ${this.project} is ${this.state}: wait for its end`
  }
}

/** Nothing was ever built that the action could act on. */
export class RuntimeNotProvisioned extends Schema.TaggedError<RuntimeNotProvisioned>()(
  "RuntimeNotProvisioned",
  { project: ProjectId, action: OperationAction }
) {
  readonly code = "runtime_not_provisioned"
  override get message(): string {
    return `project ${this.project} has no machine to ${this.action}: provision it first`
  }
}

/** The machine exists and is whole; building it once more would lose it. */
export class RuntimeAlreadyProvisioned extends Schema.TaggedError<RuntimeAlreadyProvisioned>()(
  "RuntimeAlreadyProvisioned",
  { project: ProjectId }
) {
  readonly code = "runtime_already_provisioned"
  override get message(): string {
    return `project ${this.project} has a machine already: start it, or rebuild it to change it`
  }
}

/** What the locked rows can refuse a request with. */
export type AdmissionRefusal =
  | RequestKeyConflict
  | GenerationConflict
  | OperationInProgress
  | RuntimeNotProvisioned
  | RuntimeAlreadyProvisioned
