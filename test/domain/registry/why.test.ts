import { assert, describe, it } from "@effect/vitest"
import { RequestKey } from "../../../src/domain/Identity.ts"
import { provenanceOf } from "../../../src/domain/registry/provenance.ts"
import { explain, whySteps, type WhyFacts } from "../../../src/domain/registry/why.ts"
import { drawIdentity, makeScriptedState } from "../../../src/infra/guests/scriptedState.ts"
import { makeSpec } from "../../suites/guestHarness.ts"
import { proofOf, recordOf, sandboxOf } from "./fixture.ts"

const one = sandboxOf(1)
const identity = drawIdentity(makeScriptedState(), makeSpec({ sandbox: one }))
const asked = recordOf(1, {
  status: "Failed",
  statusReason: "ended with exit code 3",
  origin: { key: RequestKey.make("k-1"), hash: "a".repeat(64), actor: "uid:7", startedAtMillis: 1_020 },
  history: [
    { status: "Pending", atMillis: 1_010, wanted: "start" },
    { status: "Running", atMillis: 1_020, wanted: "start" },
    { status: "Failed", atMillis: 1_030, wanted: "reconciliation" }
  ],
  deletion: { reason: "user", actor: "uid:8", requestedAtMillis: 2_000 }
})

const facts = (fields: Partial<WhyFacts> = {}): WhyFacts => ({
  sandbox: one,
  provenance: provenanceOf(asked, identity),
  isCharged: false,
  proof: proofOf(one),
  ...fields
})

const named = (fields: Partial<WhyFacts>, name: (typeof whySteps)[number]) =>
  explain(facts(fields)).filter(({ step }) => step === name)

describe("registry/why", () => {
  it("BX-02 the chain leads from the request to the proof, in order, with actor and reason for every step", () => {
    const steps = explain(facts())
    assert.deepStrictEqual(
      steps.map(({ step }) => step),
      ["request", "admission", "intention", "guest", "state", "state", "state", ...whySteps.slice(5)]
    )
    for (const { actor, step, told } of steps) {
      assert.isNotNull(actor, step)
      assert.isNotEmpty(told, step)
    }
    const times = steps.flatMap(({ atMillis }) => (atMillis === null || atMillis === 0 ? [] : [atMillis]))
    assert.deepStrictEqual(
      times,
      times.toSorted((one, other) => one - other)
    )
  })

  it("the request is told with key, hash and actor, the admission with its charge", () => {
    assert.deepInclude(named({}, "request")[0], {
      actor: "uid:7",
      facts: { key: "k-1", hash: "a".repeat(64) }
    })
    assert.deepStrictEqual(named({}, "admission")[0]?.facts, {
      sandboxes: 1,
      cpuMillis: asked.cpuMillis,
      memoryBytes: asked.memoryBytes
    })
  })

  it("the guest is told by supervisor, pid, start tick and boot", () => {
    assert.deepInclude(named({}, "guest")[0]?.facts, {
      supervisor: "scripted",
      pid: identity.init.pid,
      startTicks: identity.init.startTicks,
      bootId: identity.bootId
    })
    const none = named({ provenance: provenanceOf(asked, null) }, "guest")[0]
    assert.deepInclude(none, { told: "no guest of it is recorded", actor: null })
  })

  it("the last state carries the reason that the record has, the others do not", () => {
    assert.deepStrictEqual(
      named({}, "state").map(({ told }) => told),
      [
        "became Pending for start",
        "became Running for start",
        "became Failed for reconciliation: ended with exit code 3"
      ]
    )
  })

  it("the deletion names who wanted it and why; where nobody did it says so", () => {
    assert.deepInclude(named({}, "deletion")[0], { actor: "uid:8", atMillis: 2_000 })
    const kept = provenanceOf(recordOf(1), null)
    assert.deepInclude(named({ provenance: kept }, "deletion")[0], { actor: null, atMillis: null })
  })

  it("nothing is said to be proved or given back before it is", () => {
    const charged = { isCharged: true, proof: null }
    for (const name of ["absence", "tombstone"] as const)
      assert.deepInclude(named(charged, name)[0], { actor: null, atMillis: null })
    assert.match(named(charged, "reservation")[0]!.told, /^kept until its absence is proved/)
    assert.match(named({ isCharged: true }, "reservation")[0]!.told, /^kept until its files are removed/)
    assert.match(named({}, "reservation")[0]!.told, /^given back/)
    const kept = { ...charged, provenance: provenanceOf(recordOf(1), null) }
    assert.match(named(kept, "reservation")[0]!.told, /^kept, as long as it is there/)
  })

  it("a sandbox without a key names the Project that it is of, or that there was no key", () => {
    const ofProject = provenanceOf(recordOf(1, { metadata: { project: "7" } }), null)
    assert.deepInclude(named({ provenance: ofProject }, "request")[0], { actor: "project 7" })
    const ofNobody = provenanceOf(recordOf(1, { metadata: {} }), null)
    assert.match(named({ provenance: ofNobody }, "request")[0]!.told, /without a key/)
    const pretending = provenanceOf(recordOf(1, { origin: asked.origin!, metadata: { project: "7" } }), null)
    assert.strictEqual(named({ provenance: pretending }, "request")[0]?.actor, "uid:7")
  })

  it("of a sandbox that was reclaimed without a record only the end is told", () => {
    assert.deepStrictEqual(
      explain(facts({ provenance: null })).map(({ step }) => step),
      ["request", "absence", "tombstone", "reservation"]
    )
  })

  it("RG-REC-02 neither the environment nor the token is in what is remembered", () => {
    const text = JSON.stringify([provenanceOf(asked, identity), explain(facts())])
    assert.notInclude(text, "s3cret")
    assert.notInclude(text, asked.endpointToken)
  })
})
