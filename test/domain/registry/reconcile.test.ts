import { assert, describe, it } from "@effect/vitest"
import { AbsenceEvidence } from "../../../src/domain/guests/AbsenceProof.ts"
import { GuestIdentity, GuestObservation } from "../../../src/domain/guests/GuestSupervisor.ts"
import { Generation } from "../../../src/domain/Identity.ts"
import { SandboxStatus } from "../../../src/domain/registry/Record.ts"
import { reconcile } from "../../../src/domain/registry/reconcile.ts"
import { isOwnGuest } from "../../../src/domain/registry/status.ts"
import { recordOf, sandboxOf } from "./fixture.ts"

const identityOf = (fields: object = {}) =>
  new GuestIdentity({
    supervisor: "scripted",
    sandbox: sandboxOf(1),
    generation: Generation.make(1),
    runId: "run",
    attemptId: "attempt",
    bootId: "boot",
    monitor: { pid: 1, startTicks: "1" },
    init: { pid: 2, startTicks: "2" },
    groups: [],
    userId: 1,
    ...fields
  })
const { Gone, Paused, Running, Uncertain, Unsettled } = GuestObservation.cases
const gone = (evidence: AbsenceEvidence, exitCode: number | null = null) =>
  Gone.make({ evidence, generation: Generation.make(1), exit: { exitCode }, tombstone: false })

const observations = {
  running: Running.make({ identity: identityOf() }),
  paused: Paused.make({ identity: identityOf() }),
  stranger: Running.make({ identity: identityOf({ attemptId: "another" }) }),
  half: Unsettled.make({ why: "half dead" }),
  gone: gone(AbsenceEvidence.cases.InitGone.make({ init: null }), 3),
  never: gone(AbsenceEvidence.cases.NeverStarted.make({})),
  uncertain: Uncertain.make({ why: "contradiction" })
}

const failed = "status Failed"
/** By state of the record: what is done for each observation, in the order of `observations`. */
const table: Record<SandboxStatus, ReadonlyArray<string>> = {
  Pending: ["status Running", "status Paused", "end", "end", failed, "keep", "status Pending"],
  Running: ["keep", "status Paused", failed, "end", failed, failed, "status Running"],
  Pausing: ["status Running", "status Paused", failed, "end", failed, failed, "status Pausing"],
  Paused: ["status Running", "keep", failed, "end", failed, failed, "status Paused"],
  Resuming: ["status Running", "status Paused", failed, "end", failed, failed, "status Resuming"],
  Stopping: ["end", "end", "end", "end", "status Terminated", "status Terminated", "status Stopping"],
  Terminated: ["end", "end", "end", "end", "keep", "keep", "status Terminated"],
  Failed: ["end", "end", "keep", "end", "keep", "keep", "keep"]
}

describe("registry/reconcile", () => {
  it.each(SandboxStatus.literals)(
    "RG-RUN-03 a record %s meets every observation as the table says",
    (status) => {
      const verdicts = Object.values(observations).map((observation) => {
        const verdict = reconcile(recordOf(1, { status }), observation)
        return verdict.act === "status" ? `status ${verdict.status}` : verdict.act
      })
      assert.deepStrictEqual(verdicts, table[status])
    }
  )

  it.each(SandboxStatus.literals)(
    "RG-DEL-01 a record %s with a deletion intent only goes on with it",
    (status) => {
      const deletion = { reason: "user", actor: "", requestedAtMillis: 0 } as const
      for (const observation of Object.values(observations)) {
        assert.deepStrictEqual(reconcile(recordOf(1, { status, deletion }), observation), { act: "delete" })
      }
    }
  )

  it("RG-DEL-06 an uncertain guest leaves its state and puts the reason on the record, once", () => {
    const record = recordOf(1, { status: "Running" })
    assert.deepStrictEqual(reconcile(record, observations.uncertain), {
      act: "status",
      status: "Running",
      reason: "contradiction"
    })
    const told = recordOf(1, { status: "Running", statusReason: "contradiction" })
    assert.deepStrictEqual(reconcile(told, observations.uncertain), { act: "keep" })
    assert.deepStrictEqual(reconcile(told, observations.running), {
      act: "status",
      status: "Running",
      reason: null
    })
  })

  it.each([
    ["its exit code", observations.gone, "ended with exit code 3"],
    [
      "a reboot",
      gone(AbsenceEvidence.cases.BootChanged.make({ recordedBootId: "a", observedBootId: "b" })),
      "reboot"
    ],
    ["an end that nobody saw", observations.never, "its exit was not seen"]
  ] as const)("a lost guest's record tells of %s", (_, observation, words) => {
    const verdict = reconcile(recordOf(1, { status: "Running" }), observation)
    assert.include(verdict.act === "status" ? verdict.reason : null, words)
  })

  it.each([
    ["generation", Generation.make(2)],
    ["runId", "x"],
    ["attemptId", "x"]
  ] as const)("RG-RUN-02 a guest of another %s is not the record's own", (field, value) => {
    const stranger = Running.make({ identity: identityOf({ [field]: value }) })
    assert.isTrue(isOwnGuest(recordOf(1), observations.running))
    assert.isFalse(isOwnGuest(recordOf(1), stranger))
    assert.strictEqual(reconcile(recordOf(1, { status: "Running" }), stranger).act, "status")
  })
})
