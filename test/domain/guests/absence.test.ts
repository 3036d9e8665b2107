/** The proof of absence follows from an observation that proves it, and from nothing else. */
import { assert, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Result from "effect/Result"
import { describe, expect } from "vitest"
import type { AbsenceProof } from "../../../src/domain/guests/AbsenceProof.ts"
import type { GuestObservation } from "../../../src/domain/guests/GuestSupervisor.ts"
import type { Registry } from "../../../src/domain/registry/Registry.ts"
import { proveAbsence } from "../../../src/domain/guests/absence.ts"
import { decideObservation, SeenGroup, SeenInit } from "../../../src/domain/guests/GuestFacts.ts"
import { Generation } from "../../../src/domain/Identity.ts"
import { alive, empty, facts, full, generation, identity, sandbox } from "./facts.ts"

const anyGroup = Arbitrary.schema(
  // Numbers choose among the four sights of a group.
  Generation
).pipe(
  Arbitrary.map((number) => [empty, full, SeenGroup.Missing(), SeenGroup.Replaced()][number % 4] ?? empty)
)

type Taken<Given, Wanted> = Given extends Wanted ? true : false
type GivenBackFor = Parameters<Registry["Service"]["remove"]>[0]
/** Everything that can be read of a proof, put together by somebody who has observed nothing. */
type Forged = Pick<AbsenceProof, "sandbox" | "generation" | "evidence" | "observedAtMillis" | "exit">
const forged: Taken<Forged, GivenBackFor> = false
const observed: Taken<GuestObservation, GivenBackFor> = false
const proofs: readonly [Taken<AbsenceProof, GivenBackFor>, Taken<GivenBackFor, AbsenceProof>] = [true, true]

describe("the proof of absence", () => {
  it("BX-02 a reservation is given back for a proof, and for nothing that looks like one", () => {
    assert.deepStrictEqual([forged, observed, ...proofs], [false, false, true, true])
  })
  it.prop(
    "BX-02 in the same boot there is none while a cgroup is not the recorded one, is populated, or init is not gone",
    { first: anyGroup, second: anyGroup, number: Arbitrary.schema(Generation) },
    ({ first, number, second }) => {
      const state =
        [SeenInit.Gone(), alive, SeenInit.Unreadable(), SeenInit.Alive({ isOfGuest: false })][number % 4] ??
        alive
      const observation = decideObservation(
        facts({ identity: identity(), groups: [first, second], init: state })
      )
      const proof = proveAbsence(sandbox, observation, { observedAtMillis: 9 })
      const isProvable = first === empty && second === empty && state._tag === "Gone"
      assert.strictEqual(Result.isSuccess(proof), isProvable)
    }
  )
  it("BX-02 carries the evidence and the generation, and a later generation that was never prepared", () => {
    const observation = decideObservation(facts({ identity: identity(), groups: [empty, empty] }))
    const proved = (asked?: Generation) =>
      Result.getOrThrow(proveAbsence(sandbox, observation, { observedAtMillis: 9, generation: asked }))
    expect(proved()).toMatchObject({
      sandbox,
      generation,
      observedAtMillis: 9,
      evidence: { _tag: "GroupsEmpty" }
    })
    expect(proved(Generation.make(7)).generation).toBe(7)
    expect(proved(Generation.make(2)).generation).toBe(3)
  })
  it("RG-DEL-01 anything but gone is refused with the state and what to do", () => {
    const states = [
      decideObservation(facts({ identity: identity(), groups: [full, full], init: alive })),
      decideObservation(facts({ identity: identity(), groups: [full, full], init: alive, frozen: true })),
      decideObservation(facts({ identity: identity(), groups: [full, empty] })),
      decideObservation(facts({ identity: identity(), groups: [SeenGroup.Missing(), empty] }))
    ]
    const refusals = states.map((each) => Result.flip(proveAbsence(sandbox, each, { observedAtMillis: 1 })))
    expect(refusals.map((each) => Result.getOrThrow(each).state)).toEqual([
      "Running",
      "Paused",
      "Unsettled",
      "Uncertain"
    ])
    expect(refusals.map((each) => Result.getOrThrow(each).code)).toEqual(Array(4).fill("absence_not_proved"))
  })
})
