/**
 * Why a step ended its operation where no other refusal says it: the code and the sentence go to the receipt.
 * Refusals of a request, before there is an operation, are in AdmissionRefusals.ts.
 */
import * as Schema from "effect/Schema"
import { ProjectId } from "../Identity.ts"

export const StepRefusalCode = Schema.Literals([
  "runtime_not_provisioned",
  "supervisor_unavailable",
  "generation_conflict",
  "workspace_not_writable",
  "sandbox_of_another_node",
  "snapshot_exists",
  "snapshot_not_found",
  "snapshots_full",
  "pause_unavailable",
  "no_safe_copy"
])

export class OperationRefused extends Schema.TaggedError<OperationRefused>()("OperationRefused", {
  project: ProjectId,
  code: StepRefusalCode,
  why: Schema.String
}) {
  override get message(): string {
    return `the runtime of project ${this.project} is left as it is: ${this.why}`
  }
}

/** The runtime's row names another machine by now than the one that the operation is about. */
export const replacedMeanwhile = ({ project }: { readonly project: ProjectId }): OperationRefused =>
  new OperationRefused({ project, code: "generation_conflict", why: "its machine was replaced meanwhile" })
