/**
 * Operations as their readers see them, with what each live one waits for. Where none is live no statement is sent.
 * Source: FC-06.
 */
import * as Effect from "effect/Effect"
import { type Operation, settledStates } from "../../domain/operations/Operation.ts"
import { OperationRows } from "../../domain/operations/OperationStore.ts"
import { answering } from "./access.ts"
import { operationView } from "./present.ts"

export const operationViews = Effect.fnUntraced(function* (operations: ReadonlyArray<Operation>) {
  const live = operations.filter(({ state }) => !settledStates.includes(state)).map(({ id }) => id)
  const sights = live.length === 0 ? [] : yield* answering((yield* OperationRows).queueSights(live))
  return operations.map((operation) => operationView(operation, sights))
})

/** The same for one. */
export const oneOperationView = (operation: Operation) =>
  Effect.map(operationViews([operation]), ([view]) => view ?? operationView(operation))
