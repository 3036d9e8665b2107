import { assert, describe, it } from "vitest"
import { recoveryHealthySeconds } from "../../../src/domain/Bounds.ts"
import {
  decideRecovery,
  delaySecondsAfter,
  type RecoveryDecision,
  type RecoveryFacts
} from "../../../src/domain/operations/autoRecoveryDecision.ts"
import { RuntimeDesired, RuntimeObserved } from "../../../src/domain/runtimes/Runtime.ts"

const down: RecoveryFacts = {
  desired: "running",
  observed: "failed",
  isBusy: false,
  attempts: 0,
  dueInMillis: null,
  runningForMillis: null
}
const up: RecoveryFacts = { ...down, observed: "running", runningForMillis: 1_000 }
const healthyMillis = recoveryHealthySeconds * 1_000

const table: ReadonlyArray<
  readonly [what: string, facts: Partial<RecoveryFacts>, decision: RecoveryDecision]
> = [
  ["the first attempt waits for nothing", {}, { _tag: "Recover" }],
  ["a guest that ended by itself", { observed: "stopped" }, { _tag: "Recover" }],
  ["the second attempt", { attempts: 1 }, { _tag: "Schedule", delaySeconds: 30 }],
  ["the third attempt", { attempts: 2 }, { _tag: "Schedule", delaySeconds: 120 }],
  ["the fourth attempt", { attempts: 3 }, { _tag: "Schedule", delaySeconds: 600 }],
  ["the hundredth attempt", { attempts: 99 }, { _tag: "Schedule", delaySeconds: 600 }],
  ["one that is not due", { attempts: 1, dueInMillis: 1 }, { _tag: "Nothing" }],
  ["one that is due", { attempts: 1, dueInMillis: 0 }, { _tag: "Recover" }],
  ["one that is overdue", { attempts: 3, dueInMillis: -5_000 }, { _tag: "Recover" }],
  ["somebody is at work", { isBusy: true }, { _tag: "Nothing" }],
  ["a recovery at work", { isBusy: true, attempts: 1, dueInMillis: -1 }, { _tag: "Nothing" }],
  ["it runs, and nobody has noted it", { ...up, runningForMillis: null }, { _tag: "NoteRunning" }],
  ["it runs while one is due", { ...up, dueInMillis: 5 }, { _tag: "NoteRunning" }],
  ["it has run for a moment", { ...up, attempts: 2 }, { _tag: "Nothing" }],
  ["not quite healthy", { ...up, attempts: 2, runningForMillis: healthyMillis - 1 }, { _tag: "Nothing" }],
  ["healthy", { ...up, attempts: 2, runningForMillis: healthyMillis }, { _tag: "Reset" }],
  ["healthy all the time", { ...up, runningForMillis: healthyMillis * 2 }, { _tag: "Nothing" }],
  ["stopped on purpose", { desired: "stopped", observed: "stopped" }, { _tag: "Nothing" }],
  ["stopped while one was due", { desired: "stopped", dueInMillis: 5 }, { _tag: "Reset" }],
  ["stopped after attempts", { desired: "stopped", attempts: 1 }, { _tag: "Reset" }],
  ["stopped after it ran", { ...up, desired: "stopped", observed: "stopped" }, { _tag: "Reset" }]
]

describe("operations/autoRecoveryDecision", () => {
  it.each(table)("SP figures: %s", (_, facts, decision) => {
    assert.deepStrictEqual(decideRecovery({ ...down, ...facts }), decision)
  })

  it("SP figures: attempts wait 0, 30, 120 and 600 s, and 600 s from then on", () => {
    assert.deepStrictEqual([0, 1, 2, 3, 4, 50].map(delaySecondsAfter), [0, 30, 120, 600, 600, 600])
  })

  it("nothing is started that is not wanted running, is being worked on, or is between two states", () => {
    const starting: Array<string> = []
    for (const desired of RuntimeDesired.literals) {
      for (const observed of RuntimeObserved.literals) {
        for (const isBusy of [false, true]) {
          if (decideRecovery({ ...down, desired, observed, isBusy })._tag === "Recover") {
            starting.push(`${desired} ${observed} ${isBusy}`)
          }
        }
      }
    }
    assert.deepStrictEqual(starting.toSorted(), ["running failed false", "running stopped false"])
  })
})
