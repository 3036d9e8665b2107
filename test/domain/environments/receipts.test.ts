import { assert, describe, it } from "vitest"
import { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import {
  hasTerminationEvidence,
  haveAllStopped,
  type JudgedVerb,
  judgeReply,
  type ReplyVerdict,
  terminationEvidence
} from "../../../src/domain/environments/receipts.ts"
import { makeSeededRandom } from "../../support/seededRandom.ts"
import { leaseOf, otherRun, otherTenant, pinned, providerLeaseId, uuidOf } from "./leaseBuilders.ts"

const receipt = (state: string, id = providerLeaseId) => ({ providerLeaseId: id, state })

const table: ReadonlyArray<readonly [verb: JudgedVerb, row: string, reply: unknown, verdict: ReplyVerdict]> =
  [
    ["release", "undefined", undefined, "Silent"],
    ["release", "{}", {}, "Silent"],
    ["release", "null", null, "Silent"],
    ["release", "a receipt with another id", receipt("stopped", "other"), "Unconfirmed"],
    ["release", "a matching receipt", receipt("stopped"), "Matching"],
    ["release", "another state", receipt("failed"), "Unconfirmed"],
    ["stop", "undefined", undefined, "Unconfirmed"],
    ["stop", "{}", {}, "Unconfirmed"],
    ["stop", "null", null, "Unconfirmed"],
    ["stop", "a receipt with another id", receipt("stopped", "other-sandbox"), "Unconfirmed"],
    ["stop", "a matching receipt", receipt("stopped"), "Matching"],
    ["stop", "the state of another verb", receipt("destroyed"), "Unconfirmed"],
    ["destroy", "undefined", undefined, "Silent"],
    ["destroy", "{}", {}, "Silent"],
    ["destroy", "null", null, "Silent"],
    ["destroy", "a receipt with another id", receipt("destroyed", "other"), "Unconfirmed"],
    ["destroy", "a matching receipt", receipt("destroyed"), "Matching"],
    ["destroy", "the state of another verb", receipt("stopped"), "Unconfirmed"],
    ["destroy", "a failed state", receipt("failed"), "Unconfirmed"],
    ["destroy", "a state that is on its way", receipt("deleting"), "Unconfirmed"],
    ["destroy", "a state without an id", { state: "destroyed" }, "Unconfirmed"],
    ["destroy", "an id without a state", { providerLeaseId }, "Unconfirmed"],
    ["destroy", "no object", "destroyed", "Unconfirmed"],
    ["destroy", "a list", [], "Unconfirmed"],
    ["destroy_uncertain", "undefined", undefined, "Unconfirmed"],
    ["destroy_uncertain", "{}", {}, "Unconfirmed"],
    ["destroy_uncertain", "a receipt with another id", receipt("destroyed", "other"), "Unconfirmed"],
    ["destroy_uncertain", "a matching receipt", receipt("destroyed"), "Matching"]
  ]

const verbs: ReadonlyArray<JudgedVerb> = ["release", "stop", "destroy", "destroy_uncertain"]

describe("environments/receipts", () => {
  it.each(table)("RL 5.3 %s: %s", (verb, _, reply, verdict) => {
    assert.strictEqual(judgeReply(verb, providerLeaseId, reply), verdict)
  })

  it("RL 5.3 property: only the exact id with the exact state matches", () => {
    const seed = 20_260_503
    const random = makeSeededRandom(seed)
    const states = ["stopped", "destroyed", "failed", "", "Stopped", "DESTROYED"]
    for (let round = 0; round < 400; round += 1) {
      const verb = random.pick(verbs)
      const wanted = verb === "stop" || verb === "release" ? "stopped" : "destroyed"
      const id = random.pick([providerLeaseId, `${providerLeaseId} `, "", "other"])
      const state = random.pick(states)
      const verdict = judgeReply(verb, providerLeaseId, { providerLeaseId: id, state })
      const isMatching = id === providerLeaseId && state === wanted
      assert.strictEqual(verdict, isMatching ? "Matching" : "Unconfirmed", `seed ${seed}, round ${round}`)
    }
  })

  const stopped = (change: Parameters<typeof leaseOf>[0] = {}) => {
    const lease = leaseOf({ status: "released", ...change })
    return leaseOf({
      status: "released",
      ...change,
      metadata: { ...pinned, ...terminationEvidence(lease, "stopped") }
    })
  }
  const evidenceFree = leaseOf({ status: "released" })
  const changed = (change: Parameters<typeof leaseOf>[0]) =>
    leaseOf({ status: "released", metadata: stopped().metadata, ...change })

  it("RL-DESTROY-05 evidence names schema, tenant, run, lease, resource and state", () => {
    const lease = leaseOf()
    assert.deepStrictEqual(terminationEvidence(lease, "destroyed"), {
      remoteExecutionTermination: {
        schema: "holdfast.remote-termination.v1",
        tenantId: lease.tenant,
        runId: lease.run,
        leaseId: lease.id,
        providerLeaseId,
        state: "destroyed"
      }
    })
  })

  it.each([
    ["its own", stopped(), true],
    ["none", evidenceFree, false],
    ["its own, but a cleanup is owed", changed({ status: "pending_cleanup" }), false],
    ["its own, but it is active again", changed({ status: "active" }), false],
    ["another tenant's", changed({ tenant: otherTenant }), false],
    ["another run's", changed({ run: otherRun }), false],
    ["another lease's", changed({ id: EnvironmentLeaseId.make(uuidOf(99)) }), false],
    ["another resource's", changed({ providerLeaseId: "other" }), false],
    ["unreadable", changed({ metadata: { remoteExecutionTermination: "stopped" } }), false]
  ])("RL-STOP-03 evidence that is %s", (_, lease, holds) => {
    assert.strictEqual(hasTerminationEvidence(lease), holds)
    assert.strictEqual(haveAllStopped([lease]), holds)
  })

  it("U27 every provider-backed lease has to have it, and none at all is no proof", () => {
    assert.isFalse(haveAllStopped([]))
    assert.isFalse(haveAllStopped([leaseOf({ providerLeaseId: null, status: "released" })]))
    assert.isFalse(haveAllStopped([stopped(), evidenceFree]))
    assert.isTrue(haveAllStopped([stopped(), leaseOf({ providerLeaseId: null, status: "released" })]))
  })
})
