/**
 * The pure part of admission: what becomes of a request on the rows that the transaction has locked. The order of the
 * refusals is part of the contract: the SQL form answers the same. Performing it is the business of admission.ts.
 */
import * as Data from "effect/Data"
import * as Option from "effect/Option"
import type { Initiator } from "../host/Accounts.ts"
import type { Generation } from "../Identity.ts"
import type { Runtime } from "../runtimes/Runtime.ts"
import {
  type AdmissionRefusal,
  GenerationConflict,
  OperationInProgress,
  RequestKeyConflict,
  RuntimeAlreadyProvisioned,
  RuntimeNotProvisioned
} from "./AdmissionRefusals.ts"
import {
  type Operation,
  type OperationParameters,
  type OperationRequest,
  parameterNames
} from "./Operation.ts"

/** The rows that decide: all of one Project, locked. A `provision` finds the runtime made by its transaction. */
export interface AdmissionState {
  readonly runtime: Option.Option<Runtime>
  readonly receipt: Option.Option<Operation>
  readonly live: Option.Option<Operation>
}

export type Admission = Data.TaggedEnum<{
  /** The same request was admitted before: its operation is the answer. */
  Repeat: { readonly operation: Operation }
  /** Its failed receipt is queued again. Source: SP figures (re-arming). */
  Rearm: { readonly operation: Operation; readonly supersedes: Option.Option<Operation> }
  Insert: { readonly generation: Generation; readonly supersedes: Option.Option<Operation> }
  Refuse: { readonly refusal: AdmissionRefusal }
}>
export const Admission = Data.taggedEnum<Admission>()

const sameParameters = (left: OperationParameters, right: OperationParameters): boolean =>
  parameterNames.every((name) => left[name] === right[name])

const isSameRequest = (receipt: Operation, request: OperationRequest): boolean =>
  receipt.action === request.action &&
  (request.expectedGeneration === null || request.expectedGeneration === receipt.generation) &&
  sameParameters(receipt.parameters, request.parameters)

/** An explicit stop does not wait behind an automatic recovery that has not begun. Source: SP figures. */
const supersedes = (live: Operation, request: OperationRequest, initiator: Initiator): boolean =>
  request.action === "stop" &&
  initiator !== "system" &&
  live.action === "recover" &&
  live.initiator === "system" &&
  live.state === "queued"

/** A receipt may go on where it stopped only on the machine that it was for, or that it made itself. */
const ownsGeneration = (receipt: Operation, generation: Generation): boolean =>
  receipt.generation === generation || receipt.newRecipe?.generation === generation

const isWhole = (runtime: Runtime): boolean =>
  runtime.recipe !== null && (runtime.observed === "running" || runtime.observed === "stopped")

/** Another request has given the Project a machine since this one failed: it would take its place. */
const isProvisionedAnew = (receipt: Operation, runtime: Runtime): boolean =>
  receipt.action === "provision" && isWhole(runtime) && receipt.newRecipe?.sandbox !== runtime.sandbox

const behindLive = (
  state: AdmissionState,
  request: OperationRequest,
  initiator: Initiator,
  admit: (superseded: Option.Option<Operation>) => Admission
): Admission => {
  if (Option.isNone(state.live) || supersedes(state.live.value, request, initiator)) {
    return admit(state.live)
  }
  const { id, action, state: liveState } = state.live.value
  return Admission.Refuse({
    refusal: new OperationInProgress({ project: request.project, operation: id, action, state: liveState })
  })
}

const onReceipt = (
  receipt: Operation,
  state: AdmissionState,
  request: OperationRequest,
  initiator: Initiator
): Admission => {
  const { project, requestKey } = request
  if (!isSameRequest(receipt, request)) {
    return Admission.Refuse({
      refusal: new RequestKeyConflict({ project, requestKey, operation: receipt.id })
    })
  }
  if (receipt.state !== "failed") {
    return Admission.Repeat({ operation: receipt })
  }
  if (Option.isNone(state.runtime)) {
    return Admission.Refuse({ refusal: new RuntimeNotProvisioned({ project, action: request.action }) })
  }
  const runtime = state.runtime.value
  if (!ownsGeneration(receipt, runtime.generation)) {
    const { generation: actual } = runtime
    return Admission.Refuse({
      refusal: new GenerationConflict({ project, expected: receipt.generation, actual })
    })
  }
  return behindLive(state, request, initiator, (superseded) =>
    isProvisionedAnew(receipt, runtime)
      ? Admission.Refuse({ refusal: new RuntimeAlreadyProvisioned({ project }) })
      : Admission.Rearm({ operation: receipt, supersedes: superseded })
  )
}

const lacksMachine = (runtime: Runtime): boolean => runtime.recipe === null || runtime.observed === "deleted"

/**
 * Decides what becomes of a request. Order: receipt of the key, missing runtime, generation, live operation, state of
 * the machine. Source: SP-ADM-07, SP-ADM-08, SP-ADM-09.
 */
export const decideAdmission = (
  state: AdmissionState,
  request: OperationRequest,
  initiator: Initiator
): Admission => {
  if (Option.isSome(state.receipt)) {
    return onReceipt(state.receipt.value, state, request, initiator)
  }
  const { project, action, expectedGeneration } = request
  if (Option.isNone(state.runtime)) {
    return Admission.Refuse({ refusal: new RuntimeNotProvisioned({ project, action }) })
  }
  const runtime = state.runtime.value
  if (expectedGeneration !== null && expectedGeneration !== runtime.generation) {
    return Admission.Refuse({
      refusal: new GenerationConflict({ project, expected: expectedGeneration, actual: runtime.generation })
    })
  }
  return behindLive(state, request, initiator, (superseded) => {
    if (action !== "provision" && lacksMachine(runtime)) {
      return Admission.Refuse({ refusal: new RuntimeNotProvisioned({ project, action }) })
    }
    if (action === "provision" && isWhole(runtime)) {
      return Admission.Refuse({ refusal: new RuntimeAlreadyProvisioned({ project }) })
    }
    return Admission.Insert({ generation: runtime.generation, supersedes: superseded })
  })
}
