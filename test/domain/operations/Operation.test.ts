import { assert, describe, it } from "@effect/vitest"
import {
  liveStates,
  move,
  operationMoves,
  type OperationEvent,
  OperationState,
  settledStates
} from "../../../src/domain/operations/Operation.ts"

const events = Object.keys(operationMoves) as ReadonlyArray<OperationEvent>

describe("operationMoves", () => {
  it("every state is live or settled, and none both", () => {
    assert.deepStrictEqual(
      [...liveStates, ...settledStates].toSorted(),
      [...OperationState.literals].toSorted()
    )
  })

  it("a success or a superseded operation is final, and a failed one is left only by re-arming", () => {
    const ways = (state: OperationState) => events.filter((event) => move(state, event) !== null)
    assert.deepStrictEqual(ways("succeeded"), [])
    assert.deepStrictEqual(ways("superseded"), [])
    assert.deepStrictEqual(ways("failed"), ["rearm"])
    assert.deepStrictEqual(ways("queued"), ["claim", "supersede"])
    assert.deepStrictEqual(ways("claimed"), ["release", "succeed", "fail", "supersede"])
  })
})
