/**
 * Everything that a supervisor reads about one sandbox, and what it means. Reading is the adapter's part; what may be
 * done with the meaning belongs to absence.ts and to reclamation. Nothing here falls back to "gone": each way to it is
 * written out.
 */
import * as Data from "effect/Data"
import * as Schema from "effect/Schema"
import { Generation, SandboxId } from "../Identity.ts"
import { AbsenceEvidence, type AbsenceProof, type ExitReport, OwnedGroup } from "./AbsenceProof.ts"
import { type GuestIdentity, GuestObservation } from "./GuestSupervisor.ts"

/** Binding of a launch in flight, durable in preparing.json before anything is spawned. Source: RG-RUN-03. */
export class PreparedLaunch extends Schema.Class<PreparedLaunch>("holdfast/PreparedLaunch")({
  sandbox: SandboxId,
  generation: Generation,
  runId: Schema.String,
  attemptId: Schema.String,
  bootId: Schema.String,
  /** Host user that the guest's processes will run under. */
  userId: Schema.Int,
  groups: Schema.Array(OwnedGroup)
}) {}

/** What the folder of a recorded cgroup looks like now. `populated` counts every process below it, zombies not. */
export type SeenGroup = Data.TaggedEnum<{
  Same: { readonly populated: boolean }
  Missing: {}
  Replaced: {}
}>
export const SeenGroup = Data.taggedEnum<SeenGroup>()

/**
 * What the machine shows under init's recorded pid. A zombie is `Gone`: it runs nothing any more. A process with
 * another start time is `Gone` too: the pid was given to somebody else. Pid and start time alone do not make it the
 * guest's: `isOfGuest` tells that it is in every recorded cgroup or, without any, sees the private mounts. Source:
 * RG-RUN-04.
 */
export type SeenInit = Data.TaggedEnum<{
  Alive: { readonly isOfGuest: boolean }
  Gone: {}
  /** The machine would not tell: never read as absence. */
  Unreadable: {}
}>
export const SeenInit = Data.taggedEnum<SeenInit>()

/** Everything that was read about one sandbox, at one look. `null` where a file is not there. */
export interface GuestFacts {
  readonly bootId: string
  /** A published tombstone's proof; it ends every question. */
  readonly tombstone: AbsenceProof | null
  readonly preparing: PreparedLaunch | null
  readonly identity: GuestIdentity | null
  /** The recorded cgroups, each as it is now, in the recorded order. */
  readonly groups: ReadonlyArray<SeenGroup>
  readonly init: SeenInit
  /** Processes that see the sandbox's private mounts or carry its launch mark; null: they could not be counted. */
  readonly witnesses: number | null
  readonly frozen: boolean
  readonly exit: ExitReport | null
  /** Generation that a sandbox without any launch is answered for. */
  readonly generation: Generation
}

const gone = (
  evidence: AbsenceEvidence,
  generation: Generation,
  exit: ExitReport | null,
  tombstone = false
): GuestObservation => GuestObservation.cases.Gone.make({ evidence, generation, exit, tombstone })

const unsettled = (why: string) => GuestObservation.cases.Unsettled.make({ why })
const uncertain = (why: string) => GuestObservation.cases.Uncertain.make({ why })

/** Why the recorded groups are not the ones that were made, or null. Source: RG-DEL-06. */
const groupsDoubt = (recorded: ReadonlyArray<OwnedGroup>, seen: ReadonlyArray<SeenGroup>): string | null => {
  if (recorded.length !== seen.length) {
    return `${recorded.length} cgroups are recorded and ${seen.length} were looked at`
  }
  const at = seen.findIndex((group) => group._tag !== "Same")
  return at === -1
    ? null
    : `the cgroup ${recorded[at]?.path} is ${seen[at]?._tag === "Missing" ? "missing" : "another one than recorded"} in the boot that made it`
}

const isPopulated = (seen: ReadonlyArray<SeenGroup>): boolean =>
  seen.some((group) => group._tag === "Same" && group.populated)

/** A launch that was prepared and whose guest was never recorded. */
const decidePrepared = (facts: GuestFacts, launch: PreparedLaunch): GuestObservation => {
  if (launch.bootId !== facts.bootId) {
    return gone(
      AbsenceEvidence.cases.BootChanged.make({
        recordedBootId: launch.bootId,
        observedBootId: facts.bootId
      }),
      launch.generation,
      facts.exit
    )
  }
  const doubt = groupsDoubt(launch.groups, facts.groups)
  if (doubt !== null) return uncertain(doubt)
  if (launch.groups.length > 0) {
    return isPopulated(facts.groups)
      ? unsettled("a launch of this boot was prepared and its cgroups hold processes")
      : gone(
          AbsenceEvidence.cases.GroupsEmpty.make({ groups: launch.groups, init: null }),
          launch.generation,
          facts.exit
        )
  }
  if (facts.witnesses === null) return uncertain("the processes of this machine could not be looked at")
  return facts.witnesses > 0
    ? unsettled(`a launch of this boot was prepared and ${facts.witnesses} processes belong to it`)
    : gone(AbsenceEvidence.cases.InitGone.make({ init: null }), launch.generation, facts.exit)
}

/** A recorded guest whose init is alive. */
const decideAlive = (facts: GuestFacts, identity: GuestIdentity, isOfGuest: boolean): GuestObservation => {
  if (!isOfGuest) {
    const lacks =
      identity.groups.length > 0 ? "is not in every cgroup of the guest" : "does not see the guest's files"
    return uncertain(`process ${identity.init.pid} is the recorded init and ${lacks}`)
  }
  return facts.frozen
    ? GuestObservation.cases.Paused.make({ identity })
    : GuestObservation.cases.Running.make({ identity })
}

/** A recorded guest whose init is dead, a zombie, or somebody else's pid by now. */
const decideEnded = (facts: GuestFacts, identity: GuestIdentity): GuestObservation => {
  if (identity.groups.length > 0) {
    return isPopulated(facts.groups)
      ? unsettled(`init ${identity.init.pid} is gone and the guest's cgroups still hold processes`)
      : gone(
          AbsenceEvidence.cases.GroupsEmpty.make({ groups: identity.groups, init: identity.init }),
          identity.generation,
          facts.exit
        )
  }
  if (facts.witnesses === null) return uncertain("the processes of this machine could not be looked at")
  return facts.witnesses > 0
    ? unsettled(
        `init ${identity.init.pid} is gone and ${facts.witnesses} processes still belong to the guest`
      )
    : gone(AbsenceEvidence.cases.InitGone.make({ init: identity.init }), identity.generation, facts.exit)
}

const decideRecorded = (facts: GuestFacts, identity: GuestIdentity): GuestObservation => {
  if (identity.bootId !== facts.bootId) {
    return gone(
      AbsenceEvidence.cases.BootChanged.make({
        recordedBootId: identity.bootId,
        observedBootId: facts.bootId
      }),
      identity.generation,
      facts.exit
    )
  }
  const doubt = groupsDoubt(identity.groups, facts.groups)
  if (doubt !== null) return uncertain(doubt)
  return SeenInit.$match(facts.init, {
    Alive: ({ isOfGuest }) => decideAlive(facts, identity, isOfGuest),
    Gone: () => decideEnded(facts, identity),
    Unreadable: () => uncertain(`process ${identity.init.pid} could not be looked at`)
  })
}

/**
 * What the facts mean. Absence follows from a tombstone, from another boot, from the recorded cgroups being the same
 * and empty, from init's end where no cgroup was owned, or from no launch having been prepared; everything else is
 * alive, unsettled or uncertain. Source: RG-RUN-02, RG-RUN-03, RG-RUN-04, RG-DEL-06.
 */
export const decideObservation = (facts: GuestFacts): GuestObservation => {
  const { identity, preparing, tombstone } = facts
  if (tombstone !== null) {
    return gone(tombstone.evidence, tombstone.generation, tombstone.exit, true)
  }
  if (identity !== null && preparing !== null && identity.attemptId !== preparing.attemptId) {
    return uncertain("a launch is recorded beside the guest of another attempt")
  }
  if (identity !== null) return decideRecorded(facts, identity)
  if (preparing !== null) return decidePrepared(facts, preparing)
  return gone(AbsenceEvidence.cases.NeverStarted.make({}), facts.generation, null)
}
