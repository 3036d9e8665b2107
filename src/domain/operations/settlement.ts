/**
 * Settlement: the end of a claimed operation and the bound of its Project's receipts. The newest receipts stay; older
 * ones go, some at a time, unless one of their machines is not yet proved absent. Source: SP-OPS-04, SP-OPS-06.
 */
import * as Effect from "effect/Effect"
import { errorTextCharactersMax } from "../Bounds.ts"
import type { AbsenceProof } from "../guests/AbsenceProof.ts"
import type { ProjectId } from "../Identity.ts"
import { keptSpan } from "../KeptSpan.ts"
import type { Observation } from "../runtimes/RuntimeStore.ts"
import { publishDurable } from "./claims.ts"
import { type HeldClaim, OperationRows, type SettleOutcome } from "./OperationStore.ts"

/** Error text as it is stored: cut at the bound, by characters. */
export const storedErrorText = (text: string): string =>
  Array.from(text).slice(0, errorTextCharactersMax).join("")

/** Ends the operation once, and publishes it after it is durable. Refused with ClaimLost; then nothing changed. */
export const settleOperation = Effect.fnUntraced(function* (
  claim: HeldClaim,
  outcome: SettleOutcome,
  observation?: Observation
) {
  const rows = yield* OperationRows
  const settled = yield* rows.settle(
    claim,
    outcome.state === "succeeded" ? outcome : { ...outcome, text: storedErrorText(outcome.text) },
    observation
  )
  yield* publishDurable(settled)
  return settled
}, keptSpan("operations.settle"))

/** A proved absence: receipts of the Project no longer stay for that machine. Source: SP-OPS-04, BX-02. */
export const recordMachineAbsent = Effect.fnUntraced(function* (project: ProjectId, proof: AbsenceProof) {
  const rows = yield* OperationRows
  yield* rows.recordAbsence(project, proof)
})
