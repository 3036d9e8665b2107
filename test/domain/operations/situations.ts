/** Situations that an admission can meet, with the answer that each form must give. */
import type { OperationRequest } from "../../../src/domain/operations/Operation.ts"
import { RequestKey } from "../../../src/domain/Identity.ts"
import { provisioned, receipt, rows, type Scene } from "../../infra/postgres/operationsFixture.ts"
import { generation } from "./builders.ts"

export interface Situation {
  readonly name: string
  readonly given: ReadonlyArray<
    (scene: Scene) => ReturnType<typeof receipt> | ReturnType<typeof provisioned> | ReturnType<typeof rows>
  >
  readonly asked: Partial<OperationRequest>
  readonly by?: "caller" | "viewer" | "system"
  readonly answer: string
}

const key = RequestKey.make("first")
const bare = ({ project }: Scene) => rows("insert into runtimes (project_id) values ($1::bigint)", [project])
const machine =
  (observed = "running", at = 1) =>
  ({ project }: Scene) =>
    provisioned(project, observed, at)
const row =
  (given: Parameters<typeof receipt>[1]) =>
  ({ project }: Scene) =>
    receipt(project, given)
const closed = ({ project }: Scene) =>
  rows("update core.projects set lifecycle = 'deleting' where id = $1::bigint", [project])
const disabled = ({ caller }: Scene) =>
  rows("update core.accounts set disabled = true where id = $1::uuid", [caller.account])

const provision: Partial<OperationRequest> = {
  action: "provision",
  requestKey: key,
  parameters: { cpuMillis: 500, image: "host" }
}
const start: Partial<OperationRequest> = { requestKey: key }
const waitingRecovery = row({ action: "recover", initiator: "system", state: "queued", key: "auto" })

export const situations: ReadonlyArray<Situation> = [
  { name: "provision where nothing is", given: [], asked: provision, answer: "admitted" },
  { name: "provision after a failed one", given: [machine("failed")], asked: provision, answer: "admitted" },
  { name: "provision of a bare runtime", given: [bare], asked: provision, answer: "admitted" },
  {
    name: "provision of a whole machine",
    given: [machine("stopped")],
    asked: provision,
    answer: "runtime_already_provisioned"
  },
  {
    name: "provision where nothing is, under another generation",
    given: [],
    asked: { ...provision, expectedGeneration: generation(2) },
    answer: "generation_conflict"
  },
  { name: "start", given: [machine()], asked: start, answer: "admitted" },
  { name: "start by the product", given: [machine()], asked: start, by: "system", answer: "admitted" },
  {
    name: "start under the right generation",
    given: [machine("failed", 3)],
    asked: { ...start, expectedGeneration: generation(3) },
    answer: "admitted"
  },
  {
    name: "start under another generation",
    given: [machine("failed", 3)],
    asked: { ...start, expectedGeneration: generation(2) },
    answer: "generation_conflict"
  },
  { name: "start where nothing is", given: [], asked: start, answer: "runtime_not_provisioned" },
  {
    name: "stop of a bare runtime",
    given: [bare],
    asked: { ...start, action: "stop" },
    answer: "runtime_not_provisioned"
  },
  {
    name: "start of a deleted machine",
    given: [machine("deleted")],
    asked: start,
    answer: "runtime_not_provisioned"
  },
  {
    name: "start of a bare runtime being provisioned",
    given: [bare, row({ action: "provision", state: "queued", key: "x" })],
    asked: start,
    answer: "operation_in_progress"
  },
  ...(["queued", "claimed", "succeeded", "superseded"] as const).map((state) => ({
    name: `start asked twice, the first ${state}`,
    given: [machine(), row({ state })],
    asked: { ...start, expectedGeneration: generation(1) },
    answer: "repeated"
  })),
  {
    name: "the key of another action",
    given: [machine(), row({ state: "succeeded" })],
    asked: { ...start, action: "stop" },
    answer: "request_key_conflict"
  },
  {
    name: "the key of another generation",
    given: [machine("running", 2), row({ state: "succeeded" })],
    asked: { ...start, expectedGeneration: generation(2) },
    answer: "request_key_conflict"
  },
  {
    name: "the key of other parameters",
    given: [
      bare,
      row({ action: "provision", state: "succeeded", parameters: { cpuMillis: 501, image: "host" } })
    ],
    asked: provision,
    answer: "request_key_conflict"
  },
  {
    name: "the same parameters in another order",
    given: [
      bare,
      row({ action: "provision", state: "queued", parameters: { image: "host", cpuMillis: 500 } })
    ],
    asked: provision,
    answer: "repeated"
  },
  {
    name: "a failed start again",
    given: [machine(), row({ state: "failed" })],
    asked: start,
    answer: "rearmed"
  },
  {
    name: "a failed provision again",
    given: [
      machine("failed"),
      row({ action: "provision", state: "failed", parameters: provision.parameters ?? {} })
    ],
    asked: provision,
    answer: "rearmed"
  },
  ...["running", "stopped"].flatMap((observed) =>
    [undefined, 1].map((newGeneration) => ({
      name: `a failed provision again, which made ${newGeneration ?? "nothing"}, and another's machine is ${observed}`,
      given: [
        machine(observed),
        row({
          action: "provision",
          state: "failed",
          parameters: provision.parameters ?? {},
          ...(newGeneration === undefined ? {} : { newGeneration })
        })
      ],
      asked: provision,
      answer: "runtime_already_provisioned"
    }))
  ),
  {
    name: "a failed provision whose runtime is gone",
    given: [row({ action: "provision", state: "failed", parameters: provision.parameters ?? {} })],
    asked: provision,
    answer: "rearmed"
  },
  {
    name: "a provision asked twice whose runtime is gone",
    given: [row({ action: "provision", state: "succeeded", parameters: provision.parameters ?? {} })],
    asked: provision,
    answer: "repeated"
  },
  {
    name: "a failed start whose runtime is gone",
    given: [row({ state: "failed" })],
    asked: start,
    answer: "runtime_not_provisioned"
  },
  {
    name: "a failed start again, behind another",
    given: [machine(), row({ state: "failed" }), row({ state: "queued", key: "x", action: "stop" })],
    asked: start,
    answer: "operation_in_progress"
  },
  {
    name: "a failed start again, of a machine that was replaced",
    given: [machine("running", 2), row({ state: "failed" })],
    asked: start,
    answer: "generation_conflict"
  },
  {
    name: "a failed rebuild again, which replaced the machine itself",
    given: [machine("failed", 2), row({ state: "failed", action: "rebuild", newGeneration: 2 })],
    asked: { ...start, action: "rebuild" },
    answer: "rearmed"
  },
  {
    name: "a second start, the first queued",
    given: [machine(), row({ state: "queued", key: "x" })],
    asked: start,
    answer: "operation_in_progress"
  },
  {
    name: "a stop, the start claimed",
    given: [machine(), row({ state: "claimed", key: "x" })],
    asked: { ...start, action: "stop" },
    answer: "operation_in_progress"
  },
  {
    name: "a stop before a waiting recovery",
    given: [machine(), waitingRecovery],
    asked: { ...start, action: "stop" },
    answer: "admitted"
  },
  {
    name: "a failed stop again before a waiting recovery",
    given: [machine(), row({ state: "failed", action: "stop" }), waitingRecovery],
    asked: { ...start, action: "stop" },
    answer: "rearmed"
  },
  {
    name: "a stop by the product before a waiting recovery",
    given: [machine(), waitingRecovery],
    asked: { ...start, action: "stop" },
    by: "system",
    answer: "operation_in_progress"
  },
  {
    name: "a start before a waiting recovery",
    given: [machine(), waitingRecovery],
    asked: start,
    answer: "operation_in_progress"
  },
  {
    name: "a start by somebody who may only look",
    given: [machine()],
    asked: start,
    by: "viewer",
    answer: "access_refused"
  },
  {
    name: "a start by a disabled account",
    given: [machine(), disabled],
    asked: start,
    answer: "access_refused"
  },
  {
    name: "a start on a closed Project",
    given: [machine(), closed],
    asked: start,
    answer: "project_not_active"
  },
  {
    name: "a start on a closed Project by somebody without access",
    given: [machine(), closed],
    asked: start,
    by: "viewer",
    answer: "project_not_active"
  },
  {
    name: "a repeated request on a closed Project",
    given: [machine(), row({ state: "succeeded" }), closed],
    asked: start,
    answer: "project_not_active"
  },
  {
    name: "a deletion",
    given: [machine()],
    asked: { ...start, action: "delete" },
    answer: "project_deletion_required"
  },
  {
    name: "an absurd parameter",
    given: [],
    asked: { ...provision, parameters: { processesMax: 0 } },
    answer: "invalid_parameters"
  }
]
