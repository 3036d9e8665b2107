import { assert, describe, it } from "@effect/vitest"
import { AccountId } from "../../../src/domain/Identity.ts"
import { machineOf } from "../../../src/domain/operations/Operation.ts"
import { explainOperation, type OperationWhyFacts } from "../../../src/domain/operations/why.ts"
import { MachineRecipe } from "../../../src/domain/runtimes/Runtime.ts"
import { operation, recipe } from "./builders.ts"

const explain = (given: Parameters<typeof operation>[0], facts: Partial<OperationWhyFacts> = {}) =>
  explainOperation({ operation: operation(given), waiting: null, lines: [], ...facts })

const of = (steps: ReturnType<typeof explain>, name: string) => steps.filter(({ step }) => step === name)

describe("explainOperation", () => {
  it("BX-02 a queued operation: request, admission, what it waits for, no claim, no step, no end", () => {
    const waiting = { kind: "node", for: "node build-7, which is away", sinceMillis: 5 } as const
    const steps = explain({}, { waiting })
    assert.deepStrictEqual(
      steps.map(({ step }) => step),
      ["request", "admission", "waiting", "claim", "step", "end"]
    )
    const { account, requestKey } = operation()
    assert.deepInclude(steps[0], { actor: account, atMillis: 0 })
    assert.include(steps[0]?.told, requestKey)
    assert.deepInclude(steps[2], { told: "waits for node build-7, which is away", atMillis: 5 })
    assert.deepInclude(steps[3], { told: "no daemon has claimed it", atMillis: null })
    assert.deepInclude(steps[5], { told: "it has not ended", atMillis: null, actor: null })
  })

  it("BX-02 claims, logged lines and the step that was reached are told in their order", () => {
    const steps = explain(
      {
        state: "claimed",
        claimSequence: 3,
        claimedAtMillis: 40,
        step: "boot",
        fraction: 0.5,
        message: "waits for the agent",
        flags: ["creating"]
      },
      {
        lines: [
          { atMillis: 41, line: "image is there" },
          { atMillis: 42, line: "guest was made" }
        ]
      }
    )
    assert.deepInclude(of(steps, "claim")[0], { told: "claimed 3 times, and is held", atMillis: 40 })
    assert.deepStrictEqual(
      of(steps, "step").map(({ told }) => told),
      [
        "image is there",
        "guest was made",
        "came to the step boot, 50% of the work, with the marks creating: waits for the agent"
      ]
    )
  })

  it("BX-02 a machine is owed until its absence is proved, and the proof is told in its place", () => {
    const old = recipe()
    const owing = explain({ oldRecipe: old, owed: [machineOf(old)], state: "claimed" })
    assert.include(of(owing, "machine")[0]?.told, "owed: it is not proved absent")
    assert.lengthOf(of(owing, "absence"), 0)
    const proved = explain({
      oldRecipe: old,
      owed: [],
      absences: ["newest sentence", "oldest sentence"],
      result: { paths: [], proofs: ["newest sentence", "a removal's sentence"] },
      state: "succeeded"
    })
    assert.include(of(proved, "machine")[0]?.told, "not owed by this receipt")
    assert.deepStrictEqual(
      of(proved, "absence").map(({ told }) => told),
      ["oldest sentence", "newest sentence", "a removal's sentence"]
    )
  })

  it("FC-22 the end has its reason and who wanted it: the account, the system, or the runtime", () => {
    const account = AccountId.make("00000000-0000-4000-8000-000000000099")
    const by = explain({
      state: "superseded",
      supersededBy: account,
      errorCode: "superseded_by_user",
      errorText: "it was taken back before it began",
      settledAtMillis: 9
    })
    assert.deepInclude(of(by, "end")[0], {
      told: "superseded (superseded_by_user): it was taken back before it began",
      actor: account,
      atMillis: 9
    })
    const failed = explain({
      state: "failed",
      errorCode: "guest_failure",
      errorText: "no",
      settledAtMillis: 9
    })
    assert.deepInclude(of(failed, "end")[0], { told: "failed (guest_failure): no", actor: "runtime" })
    assert.deepInclude(of(explain({ state: "succeeded" }), "end")[0], { told: "succeeded", actor: "runtime" })
    const system = explain({ account: null, initiator: "system" })
    assert.strictEqual(of(system, "request")[0]?.actor, "system")
  })

  it("FC-21 neither a claimant nor anything of a machine but its name is told", () => {
    const canary = "canary-7f3a"
    const told = explain({
      state: "claimed",
      claimedBy: canary,
      claimSequence: 1,
      parameters: { image: canary },
      newRecipe: new MachineRecipe({ ...recipe(), image: canary, disks: [`/${canary}`] })
    })
    assert.notInclude(JSON.stringify(told), canary)
  })
})
