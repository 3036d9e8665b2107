/**
 * The storage phase of a Project's deletion, as the host calls it: waits for what this daemon is doing to settle,
 * supersedes what nobody has begun, enqueues or goes on with the one durable delete operation, and answers once its
 * success is durable. A failure reaches the host with the checkpoint kept. Source: SP-DEL-08, SP-DEL-09, SP-DEL-11.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as PubSub from "effect/PubSub"
import * as Schema from "effect/Schema"
import { removalPollMillis } from "../Bounds.ts"
import { HostProjects } from "../host/Projects.ts"
import { Identifiers } from "../Identifiers.ts"
import { Generation, OperationId, parseProcessIdentity, ProjectId } from "../Identity.ts"
import { type Operation, settledStates } from "../operations/Operation.ts"
import { OperationEvents } from "../operations/OperationEvents.ts"
import { OperationRows, OperationStore } from "../operations/OperationStore.ts"
import { removalRequestKey } from "../operations/parameters.ts"
import { Processes } from "../Processes.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { verifyRemoval } from "./inspection.ts"
import { missingCondition, RemovalBlocked, RemovalNotAdmitted, storageParticipant } from "./RemovalPlan.ts"

/** The delete operation ended without success; its receipt keeps how far it came, and asking again goes on there. */
export class RemovalFailed extends Schema.TaggedError<RemovalFailed>()("RemovalFailed", {
  project: ProjectId,
  operation: OperationId,
  code: Schema.String,
  why: Schema.String
}) {
  override get message(): string {
    return `the storage of project ${this.project} is not removed yet: ${this.why}`
  }
}

/** Why the queued operations of a Project that is being deleted give way. */
export const supersededByRemoval = {
  code: "superseded_by_removal",
  text: "the project is being deleted",
  by: "system"
} as const

type Admission =
  | { readonly _tag: "Admitted"; readonly operation: Operation }
  | { readonly _tag: "Busy"; readonly operation: Operation }

/** One transaction: the host's conditions, the live operation, then the one delete operation of the Project. */
const admit = Effect.fn("removal.admit")(function* (project: ProjectId) {
  const runtimes = yield* RuntimeStore
  const rows = yield* OperationRows
  const projects = yield* HostProjects
  const id = OperationId.make(yield* (yield* Identifiers).uuid)
  return yield* runtimes.transaction("removal.admit", (store) =>
    Effect.gen(function* () {
      const missing = missingCondition(yield* projects.deletion(project), storageParticipant)
      if (missing !== undefined) return yield* new RemovalNotAdmitted({ project, missing })
      const runtime = yield* store.runtime(project)
      const live = Option.getOrUndefined(yield* rows.live(project))
      if (live?.action === "delete") return { _tag: "Admitted", operation: live } satisfies Admission
      if (live?.state === "claimed") return { _tag: "Busy", operation: live } satisfies Admission
      if (live !== undefined) yield* rows.supersedeQueued(live.id, supersededByRemoval)
      const receipt = Option.getOrUndefined(yield* rows.byKey(project, removalRequestKey))
      if (receipt?.state === "succeeded") return { _tag: "Admitted", operation: receipt } satisfies Admission
      if (receipt !== undefined) {
        yield* rows.rearm(receipt.id)
        return { _tag: "Admitted", operation: receipt } satisfies Admission
      }
      const generation = Option.match(runtime, {
        onNone: () => Generation.make(1),
        onSome: (row) => row.generation
      })
      const prepared = {
        id,
        project,
        account: null,
        initiator: "system",
        action: "delete",
        requestKey: removalRequestKey,
        expectedGeneration: null,
        parameters: {}
      } as const
      return { _tag: "Admitted", operation: yield* rows.insert(prepared, generation) } satisfies Admission
    })
  )
})

/** Waits until the operation is settled: woken by its events, and looking again every `removalPollMillis`. */
const awaitSettled = Effect.fnUntraced(function* (operation: Operation) {
  const store = yield* OperationStore
  const events = yield* OperationEvents
  const subscription = yield* events.subscribe
  for (;;) {
    const now = Option.getOrUndefined(yield* store.byId(operation.id))
    if (now === undefined || settledStates.includes(now.state)) return now
    yield* PubSub.take(subscription).pipe(Effect.timeoutOption(removalPollMillis))
  }
}, Effect.scoped)

/** The delete operation, once nothing else is live on the runtime. */
const admitWhenFree = Effect.fnUntraced(function* (project: ProjectId) {
  const processes = yield* Processes
  for (;;) {
    const admission: Admission = yield* admit(project)
    if (admission._tag === "Admitted") return admission.operation
    const holder = admission.operation.claimedBy
    if (holder !== null && holder !== processes.current.toString()) {
      const liveness = yield* processes.liveness(parseProcessIdentity(holder))
      if (liveness !== "dead") {
        return yield* new RemovalBlocked({ project, operation: admission.operation.id })
      }
    }
    yield* awaitSettled(admission.operation)
  }
})

/**
 * Removes what the Project's runtime owns on this node. Refused with `RemovalNotAdmitted`, `ConfirmationNeeded`,
 * `RemovalBlocked`; `RemovalFailed` when the operation ended without success. Repeatable: what is done is not done
 * again. Answers the removed paths and the proofs of absence, one sentence each.
 */
export const removeProject = Effect.fn("removal.removeProject")(function* (project: ProjectId) {
  yield* verifyRemoval(project)
  const operation = yield* admitWhenFree(project)
  yield* (yield* OperationEvents).wake
  const settled = yield* awaitSettled(operation)
  if (settled?.state === "succeeded") return settled.result ?? { paths: [], proofs: [] }
  return yield* new RemovalFailed({
    project,
    operation: operation.id,
    code: settled?.errorCode ?? "operation_lost",
    why: settled?.errorText ?? "its receipt is gone"
  })
})
