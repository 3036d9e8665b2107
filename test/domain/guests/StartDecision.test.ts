/** Whether a launch may be made over what is there. */
import { describe, expect, it } from "vitest"
import { AbsenceEvidence } from "../../../src/domain/guests/AbsenceProof.ts"
import { GuestSpec } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestIdentity, GuestObservation } from "../../../src/domain/guests/GuestSupervisor.ts"
import { decideStart, type FormerLaunch } from "../../../src/domain/guests/StartDecision.ts"
import { Generation, SandboxId } from "../../../src/domain/Identity.ts"

const sandbox = SandboxId.make("sb-00000000-0000-4000-8000-000000000001")
const spec = new GuestSpec({
  sandbox,
  generation: Generation.make(2),
  runId: "run",
  attemptId: "attempt",
  image: "host",
  argv: [],
  environment: {},
  cpuMillis: 1,
  memoryBytes: 1,
  processesMax: 1,
  disk: null
})
const identity = (attemptId: string, generation = 2) =>
  new GuestIdentity({
    supervisor: "bubblewrap",
    sandbox,
    generation: Generation.make(generation),
    runId: "run",
    attemptId,
    bootId: "boot",
    monitor: { pid: 1, startTicks: "1" },
    init: { pid: 2, startTicks: "2" },
    groups: [],
    userId: 1
  })
const gone = (tombstone = false) =>
  GuestObservation.cases.Gone.make({
    evidence: AbsenceEvidence.cases.NeverStarted.make({}),
    generation: Generation.make(1),
    exit: null,
    tombstone
  })
const former = (changes: Partial<FormerLaunch>): FormerLaunch => ({
  generation: Generation.make(2),
  attemptId: "attempt",
  hadGuest: false,
  ...changes
})

describe("deciding a launch", () => {
  it("RG-RUN-02 adopts the living guest of the same attempt, running or paused", () => {
    for (const observation of [
      GuestObservation.cases.Running.make({ identity: identity("attempt") }),
      GuestObservation.cases.Paused.make({ identity: identity("attempt") })
    ]) {
      expect(decideStart(spec, observation, null)).toMatchObject({ _tag: "Adopt" })
    }
  })
  it("RG-RUN-02 refuses beside the living guest of another attempt or generation", () => {
    for (const other of [identity("other"), identity("attempt", 1)]) {
      expect(decideStart(spec, GuestObservation.cases.Running.make({ identity: other }), null)._tag).toBe(
        "Refuse"
      )
    }
  })
  it("refuses while anything may live", () => {
    expect(decideStart(spec, GuestObservation.cases.Unsettled.make({ why: "w" }), null)._tag).toBe("Refuse")
    expect(decideStart(spec, GuestObservation.cases.Uncertain.make({ why: "w" }), null)._tag).toBe("Refuse")
  })
  it("RG-DEL-10 refuses behind a tombstone", () => {
    expect(decideStart(spec, gone(true), null)._tag).toBe("Refuse")
  })
  it("launches where nothing was, and where an earlier generation or an unrecorded try of the attempt is gone", () => {
    expect(decideStart(spec, gone(), null)._tag).toBe("Launch")
    expect(decideStart(spec, gone(), former({}))._tag).toBe("Launch")
    const earlier = former({ generation: Generation.make(1), attemptId: "first", hadGuest: true })
    expect(decideStart(spec, gone(), earlier)._tag).toBe("Launch")
    expect(decideStart(spec, gone(), former({ attemptId: "other", hadGuest: true }))._tag).toBe("Launch")
  })
  it("does not make an attempt twice whose guest has run, nor go back to an earlier generation", () => {
    expect(decideStart(spec, gone(), former({ hadGuest: true }))._tag).toBe("Refuse")
    expect(decideStart(spec, gone(), former({ generation: Generation.make(3), attemptId: "x" }))._tag).toBe(
      "Refuse"
    )
  })
})
