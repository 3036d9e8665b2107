/** Every row of the decision about a sandbox's facts. */
import { describe, expect, it } from "vitest"
import { AbsenceEvidence, AbsenceProof } from "../../../src/domain/guests/AbsenceProof.ts"
import {
  decideObservation,
  type GuestFacts,
  SeenGroup,
  SeenInit
} from "../../../src/domain/guests/GuestFacts.ts"
import {
  alive,
  empty,
  facts,
  formerBoot,
  full,
  generation,
  groups,
  identity,
  init,
  preparing,
  sandbox,
  thisBoot
} from "./facts.ts"

describe("a launch that was prepared and never recorded", () => {
  it("is gone when its cgroups are the same and empty", () => {
    expect(decideObservation(facts({ preparing: preparing(), groups: [empty, empty] }))).toMatchObject({
      _tag: "Gone",
      evidence: { _tag: "GroupsEmpty", groups, init: null },
      generation
    })
  })
  it("is unsettled while any of its cgroups holds a process", () => {
    for (const seen of [
      [full, empty],
      [empty, full],
      [full, full]
    ]) {
      expect(decideObservation(facts({ preparing: preparing(), groups: seen }))._tag).toBe("Unsettled")
    }
  })
  it("RG-DEL-06 is uncertain when a cgroup is missing or another one", () => {
    for (const doubtful of [SeenGroup.Missing(), SeenGroup.Replaced()]) {
      for (const seen of [
        [doubtful, empty],
        [empty, doubtful],
        [doubtful, doubtful]
      ]) {
        expect(decideObservation(facts({ preparing: preparing(), groups: seen }))._tag).toBe("Uncertain")
      }
    }
  })
  it("is gone when the machine has booted since", () => {
    expect(
      decideObservation(facts({ preparing: preparing({ bootId: formerBoot }), groups: [], witnesses: 3 }))
    ).toMatchObject({
      _tag: "Gone",
      evidence: { _tag: "BootChanged", recordedBootId: formerBoot, observedBootId: thisBoot }
    })
  })
  it("without cgroups is gone only when no process belongs to it", () => {
    const none = preparing({ groups: [] })
    expect(decideObservation(facts({ preparing: none }))).toMatchObject({
      _tag: "Gone",
      evidence: { _tag: "InitGone", init: null }
    })
    expect(decideObservation(facts({ preparing: none, witnesses: 1 }))._tag).toBe("Unsettled")
    expect(decideObservation(facts({ preparing: none, witnesses: null }))._tag).toBe("Uncertain")
  })
})

describe("a recorded guest", () => {
  const seen = (changes: Partial<GuestFacts>) =>
    decideObservation(facts({ identity: identity(), ...changes }))

  it("RG-RUN-02 is running while its init lives in every recorded cgroup, paused while they stand still", () => {
    expect(seen({ groups: [full, full], init: alive })).toMatchObject({ _tag: "Running", identity: { init } })
    expect(seen({ groups: [full, full], init: alive, frozen: true })._tag).toBe("Paused")
  })
  it("is uncertain when its init lives outside a cgroup of it, or cannot be looked at", () => {
    const outside = SeenInit.Alive({ isOfGuest: false })
    expect(seen({ groups: [full, full], init: outside })._tag).toBe("Uncertain")
    expect(seen({ groups: [empty, empty], init: outside })._tag).toBe("Uncertain")
    expect(seen({ groups: [empty, empty], init: SeenInit.Unreadable() })._tag).toBe("Uncertain")
  })
  it("is gone with its exit when init is gone and the cgroups are the same and empty", () => {
    expect(seen({ groups: [empty, empty], exit: { exitCode: 5 } })).toMatchObject({
      _tag: "Gone",
      evidence: { _tag: "GroupsEmpty", groups, init },
      exit: { exitCode: 5 },
      tombstone: false
    })
  })
  it("is unsettled when init is gone and a process is left", () => {
    expect(seen({ groups: [empty, full] })._tag).toBe("Unsettled")
  })
  it("RG-DEL-06 is uncertain in the same boot when a cgroup is missing or replaced, init alive or not", () => {
    for (const doubtful of [SeenGroup.Missing(), SeenGroup.Replaced()]) {
      for (const state of [SeenInit.Gone(), alive]) {
        expect(seen({ groups: [empty, doubtful], init: state })._tag).toBe("Uncertain")
        expect(seen({ groups: [doubtful, empty], init: state })._tag).toBe("Uncertain")
      }
    }
    expect(seen({ groups: [empty] })._tag).toBe("Uncertain")
  })
  it("is gone when the machine has booted since, whatever the groups and pids show now", () => {
    const observed = decideObservation(
      facts({ identity: identity({ bootId: formerBoot }), groups: [full, full], init: alive })
    )
    expect(observed).toMatchObject({ _tag: "Gone", evidence: { _tag: "BootChanged" } })
  })
  it("RG-RUN-04 without cgroups is gone by init's end only when no process sees its mounts", () => {
    const bare = identity({ groups: [] })
    expect(decideObservation(facts({ identity: bare, init: alive }))._tag).toBe("Running")
    const stranger = SeenInit.Alive({ isOfGuest: false })
    expect(decideObservation(facts({ identity: bare, init: stranger }))._tag).toBe("Uncertain")
    expect(decideObservation(facts({ identity: bare }))).toMatchObject({
      _tag: "Gone",
      evidence: { _tag: "InitGone", init }
    })
    expect(decideObservation(facts({ identity: bare, witnesses: 2 }))._tag).toBe("Unsettled")
    expect(decideObservation(facts({ identity: bare, witnesses: null }))._tag).toBe("Uncertain")
    expect(decideObservation(facts({ identity: bare, init: SeenInit.Unreadable() }))._tag).toBe("Uncertain")
  })
  it("stands beside its own preparing file, and is uncertain beside another attempt's", () => {
    expect(seen({ preparing: preparing(), groups: [full, full], init: alive })._tag).toBe("Running")
    const other = preparing({ attemptId: "other" })
    expect(seen({ preparing: other, groups: [empty, empty] })._tag).toBe("Uncertain")
  })
})

describe("other folders", () => {
  it("nothing prepared is gone as never started, in the generation asked about", () => {
    expect(decideObservation(facts({ generation }))).toMatchObject({
      _tag: "Gone",
      evidence: { _tag: "NeverStarted" },
      generation,
      tombstone: false
    })
  })
  it("a tombstone answers its own proof, whatever else is there", () => {
    const proof = new AbsenceProof({
      sandbox,
      generation,
      evidence: AbsenceEvidence.cases.NeverStarted.make({}),
      observedAtMillis: 1,
      exit: { exitCode: 0 }
    })
    const observed = decideObservation(
      facts({ tombstone: proof, identity: identity(), groups: [SeenGroup.Missing(), full], init: alive })
    )
    expect(observed).toMatchObject({
      _tag: "Gone",
      evidence: proof.evidence,
      generation,
      tombstone: true,
      exit: { exitCode: 0 }
    })
  })
})
