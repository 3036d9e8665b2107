/**
 * Admission in single steps of one transaction: the readable reference of the SQL form that `admitOperation` calls.
 * Tests hold the two together: same outcome, same error, same rows. Lock order: Project row, runtime row, operation
 * rows. Source: SP-ADM-01 to SP-ADM-09.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type Asker, HostAccounts } from "../host/Accounts.ts"
import { HostProjects } from "../host/Projects.ts"
import { type BoundRuntimeStore, RuntimeStore } from "../runtimes/RuntimeStore.ts"
import {
  type Admitted,
  alertRefusedStart,
  announceAdmission,
  isAdopting,
  prepareOperation
} from "./admission.ts"
import { type Admission, decideAdmission } from "./admissionDecision.ts"
import type { Operation, OperationRequest } from "./Operation.ts"
import { OperationRows, type PreparedOperation, supersededByRequest } from "./OperationStore.ts"

type Performed = Admitted & { readonly superseded: ReadonlyArray<Operation> }

const vanished = (what: string) =>
  Effect.die(
    new Error(`${what} left its state under the locks of admission: something writes around the ports`)
  )

/** Supersedes what gives way, while its row is locked. */
const giveWay = Effect.fnUntraced(function* (live: Option.Option<Operation>, { account }: PreparedOperation) {
  if (Option.isNone(live)) return []
  const rows = yield* OperationRows
  if (!(yield* rows.supersedeQueued(live.value.id, { ...supersededByRequest, by: account ?? "system" }))) {
    return yield* vanished("the live operation")
  }
  return [{ ...live.value, state: "superseded" as const } as Operation]
})

const perform = Effect.fnUntraced(function* (admission: Admission, prepared: PreparedOperation) {
  const rows = yield* OperationRows
  switch (admission._tag) {
    case "Refuse":
      return yield* admission.refusal
    case "Repeat":
      return { outcome: "repeated", operation: admission.operation, superseded: [] } as Performed
    case "Rearm": {
      const superseded = yield* giveWay(admission.supersedes, prepared)
      if (!(yield* rows.rearm(admission.operation.id))) {
        return yield* vanished("the failed receipt")
      }
      const rearmed = yield* rows.byKey(prepared.project, prepared.requestKey)
      return {
        outcome: "rearmed",
        operation: Option.getOrElse(rearmed, () => admission.operation),
        superseded
      } as Performed
    }
    case "Insert": {
      const superseded = yield* giveWay(admission.supersedes, prepared)
      const operation = yield* rows.insert(prepared, admission.generation)
      return { outcome: "admitted", operation, superseded } as Performed
    }
  }
})

const steps = Effect.fnUntraced(function* (
  store: BoundRuntimeStore,
  asker: Asker,
  prepared: PreparedOperation
) {
  const projects = yield* HostProjects
  const accounts = yield* HostAccounts
  const rows = yield* OperationRows
  const { project } = prepared
  yield* projects.requireActive(project)
  if (asker !== "system") {
    yield* accounts.requireAccess(asker, project, isAdopting(prepared) ? "administer" : "write")
  }
  const made = prepared.action === "provision" && (yield* store.createIfMissing(project))
  const runtime = yield* store.runtime(project)
  const receipt = yield* rows.byKey(project, prepared.requestKey)
  const live = yield* rows.live(project)
  const admission = decideAdmission({ runtime, receipt, live }, prepared, prepared.initiator)
  if (made && admission._tag === "Repeat" && Option.isSome(runtime)) {
    yield* store.remove(project, runtime.value.generation)
  }
  return yield* perform(admission, prepared)
})

/** Does what `admitOperation` does, one statement a step, with the same refusals. */
export const admitOperationStepwise = Effect.fn("operations.admitStepwise")(function* (
  asker: Asker,
  request: OperationRequest
) {
  const prepared = yield* prepareOperation(asker, request)
  const runtimes = yield* RuntimeStore
  const { superseded, ...admitted } = yield* runtimes
    .transaction("operations.admitStepwise", (store) => steps(store, asker, prepared))
    .pipe(
      Effect.tapError((error) =>
        error._tag === "StorageFailure" || error._tag === "CommitUnknown" || error._tag === "TransactionEnded"
          ? Effect.void
          : alertRefusedStart(request, error)
      )
    )
  yield* announceAdmission(admitted, superseded)
  return admitted satisfies Admitted
})
