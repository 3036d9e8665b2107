/**
 * Admission of an operation: the durable intent of a lifecycle request. `admitOperation` is the product's form, one
 * statement; admissionStepwise.ts says the same in single steps of one transaction and is what tests compare it
 * with. Everything that is not a row is resolved before either opens a transaction. Carrying the operation out is
 * left to execution.ts, removal of a Project to removal/. Source: SP-ADM, SP-TX-10.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { AccessRefused, Asker } from "../host/Accounts.ts"
import type { ProjectNotActive } from "../host/Projects.ts"
import * as Identifiers from "../Identifiers.ts"
import { OperationId, type ProjectId } from "../Identity.ts"
import type { StorageFailure } from "../persistence/PluginDb.ts"
import {
  type AdmissionRefusal,
  GenerationConflict,
  InvalidParameters,
  OperationInProgress,
  ProjectDeletionRequired,
  RequestKeyConflict,
  RuntimeAlreadyProvisioned,
  RuntimeNotProvisioned
} from "./AdmissionRefusals.ts"
import type { Operation, OperationRequest } from "./Operation.ts"
import { OperationEvents, progressOf } from "./OperationEvents.ts"
import { type Enqueued, OperationStore, type PreparedOperation } from "./OperationStore.ts"
import { findInvalidParameter } from "./parameters.ts"

/** What a request can be refused with once it is sensible. */
export type Refusal = AdmissionRefusal | ProjectNotActive | AccessRefused

/** A start that was refused, for the people who watch the Project. Ids and our own sentence only. */
export interface RefusedStart {
  readonly project: ProjectId
  readonly action: OperationRequest["action"]
  readonly code: string
  readonly message: string
}

/** Port of the host's alerts as admission needs it. Never fails: a lost alert must not hide the refusal. */
export class OperationAlerts extends Context.Service<
  OperationAlerts,
  {
    readonly startRefused: (refused: RefusedStart) => Effect.Effect<void>
    /** So many automatic recoveries have not brought the machine up; they go on, and this is said once. */
    readonly recoveriesFail: (failing: {
      readonly project: ProjectId
      readonly attempts: number
    }) => Effect.Effect<void>
  }
>()("holdfast/domain/operations/admission/OperationAlerts") {}

/** The operation, and how it came to be the answer. */
export interface Admitted {
  readonly outcome: "admitted" | "repeated" | "rearmed"
  readonly operation: Operation
}

const startingActions: ReadonlyArray<OperationRequest["action"]> = [
  "provision",
  "start",
  "restart",
  "rebuild",
  "restore",
  "recover"
]

/** Whether the request takes a directory of the host's for its own workspace, which is more than writing. */
export const isAdopting = ({ parameters }: Pick<OperationRequest, "parameters">): boolean =>
  parameters.adoptDisk !== undefined

/** All that is no row: a sensible request, the asker's account and initiator, a fresh id. Source: SP-TX-10. */
export const prepareOperation = Effect.fnUntraced(function* (asker: Asker, request: OperationRequest) {
  if (request.action === "delete") {
    return yield* new ProjectDeletionRequired({ project: request.project })
  }
  const invalid = findInvalidParameter(request)
  if (invalid !== null) {
    return yield* invalid
  }
  if (isAdopting(request) && (asker === "system" || !asker.administrator)) {
    return yield* new InvalidParameters({
      field: "adoptDisk",
      why: "is for administrators of the host: leave it out for a disk of the project's own"
    })
  }
  const identifiers = yield* Identifiers.Identifiers
  const prepared: PreparedOperation = {
    ...request,
    id: OperationId.make(yield* identifiers.uuid),
    account: asker === "system" ? null : asker.account,
    initiator: asker === "system" ? "system" : asker.initiator
  }
  return prepared
})

const answerOf = (
  answer: Enqueued,
  { project, action, requestKey }: PreparedOperation
): Effect.Effect<Admitted & { readonly superseded: ReadonlyArray<Operation> }, AdmissionRefusal> => {
  switch (answer.outcome) {
    case "admitted":
    case "repeated":
    case "rearmed":
      return Effect.succeed(answer)
    case "key_conflict":
      return Effect.fail(new RequestKeyConflict({ project, requestKey, operation: answer.operation.id }))
    case "in_progress": {
      const { id: operation, action: live, state } = answer.operation
      return Effect.fail(new OperationInProgress({ project, operation, action: live, state }))
    }
    case "generation_conflict":
      return Effect.fail(
        new GenerationConflict({ project, expected: answer.expected, actual: answer.actual })
      )
    case "not_provisioned":
      return Effect.fail(new RuntimeNotProvisioned({ project, action }))
    case "already_provisioned":
      return Effect.fail(new RuntimeAlreadyProvisioned({ project }))
  }
}

/** After commit: those who watch learn of it, and the dispatcher looks at the queue. */
export const announceAdmission = Effect.fnUntraced(function* (
  admitted: Admitted,
  superseded: ReadonlyArray<Operation>
) {
  if (admitted.outcome === "repeated") return
  const events = yield* OperationEvents
  for (const operation of superseded) {
    yield* events.publish(progressOf(operation))
  }
  yield* events.publish(progressOf(admitted.operation))
  yield* events.wake
})

/**
 * The refusal has rolled the transaction back; the alert is raised after it and outlives it. A caller without access
 * raises none. Source: SP-ADM-06.
 */
export const alertRefusedStart = Effect.fnUntraced(function* (
  request: OperationRequest,
  refusal: { readonly _tag: string; readonly code: string; readonly message: string }
) {
  if (refusal._tag === "AccessRefused" || !startingActions.includes(request.action)) return
  const alerts = yield* OperationAlerts
  const { code, message } = refusal
  yield* alerts.startRefused({ project: request.project, action: request.action, code, message })
})

const isRefusal = (error: Refusal | StorageFailure): error is Refusal => error._tag !== "StorageFailure"

/**
 * Admits an operation in one round trip and answers it, or the one that the same key got before.
 * Refused with: ProjectDeletionRequired, InvalidParameters (both before any statement), ProjectNotActive,
 * AccessRefused, RequestKeyConflict, RuntimeNotProvisioned, GenerationConflict, OperationInProgress,
 * RuntimeAlreadyProvisioned. Source: SP-ADM-01 to SP-ADM-09.
 */
export const admitOperation = Effect.fn("operations.admit")(function* (
  asker: Asker,
  request: OperationRequest
) {
  const prepared = yield* prepareOperation(asker, request)
  const store = yield* OperationStore
  const { superseded, ...admitted } = yield* store.enqueue(prepared).pipe(
    Effect.flatMap((answer) => answerOf(answer, prepared)),
    Effect.tapError((error) => (isRefusal(error) ? alertRefusedStart(request, error) : Effect.void))
  )
  yield* announceAdmission(admitted, superseded)
  return admitted satisfies Admitted
})
