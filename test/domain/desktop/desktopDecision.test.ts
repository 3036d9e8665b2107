/** What a desktop is told as. */
import { assert, describe, it } from "@effect/vitest"
import { decideState, type SeenDesktop } from "../../../src/domain/desktop/desktopDecision.ts"

const sound: SeenDesktop = {
  isAdmitted: true,
  isCancelled: false,
  isMachineOfNow: true,
  isLeaseHeld: true,
  answers: true,
  isPreparing: false
}

describe("desktop/desktopDecision", () => {
  it("SP-DESK-04 a desktop is ready only when each look holds, and none when one that admits it does not", () => {
    assert.strictEqual(decideState(sound), "ready")
    assert.strictEqual(decideState({ ...sound, answers: false }), "unreachable")
    const lost: ReadonlyArray<Partial<SeenDesktop>> = [
      { isAdmitted: false },
      { isCancelled: true },
      { isMachineOfNow: false },
      { isLeaseHeld: false }
    ]
    for (const change of lost) {
      assert.strictEqual(decideState({ ...sound, ...change }), "none")
      assert.strictEqual(decideState({ ...sound, ...change, isPreparing: true }), "preparing")
    }
  })
})
