/**
 * Reads everything that the machine tells about one sandbox, at one look and without waiting. What the facts mean is
 * decided by domain/guests/GuestFacts.ts.
 */
import { type GuestFacts, SeenInit } from "../../domain/guests/GuestFacts.ts"
import type { OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import type { GuestIdentity } from "../../domain/guests/GuestSupervisor.ts"
import { Generation, type SandboxId } from "../../domain/Identity.ts"
import { isHeldStill } from "./cgroupControl.ts"
import { controlGroup, isMemberOfEach, seeGroup } from "./cgroups.ts"
import {
  type SandboxFolder,
  readIdentity,
  readPreparing,
  readRun,
  readStatus,
  readTombstone
} from "./folders.ts"
import { isAlive, readBootId } from "./kernel.ts"
import { findWitnesses, isWitness } from "./witnesses.ts"

const firstGeneration = Generation.make(1)

const seeInit = (identity: GuestIdentity | undefined): SeenInit => {
  if (identity === undefined) return SeenInit.Gone()
  try {
    if (!isAlive(identity.init)) return SeenInit.Gone()
  } catch {
    // The machine hides the process from this user.
    return SeenInit.Unreadable()
  }
  const { groups, init, sandbox } = identity
  const isOfGuest = groups.length > 0 ? isMemberOfEach(init.pid, groups) : isWitness(init.pid, sandbox)
  return SeenInit.Alive({ isOfGuest })
}

const isStill = (groups: ReadonlyArray<OwnedGroup>): boolean => {
  const control = controlGroup(groups)
  return control !== null && isHeldStill(control)
}

/** Processes are looked for only where no cgroup tells, since that looks at the whole machine. */
const countWitnesses = (
  sandbox: SandboxId,
  recorded: ReadonlyArray<OwnedGroup> | undefined,
  init: SeenInit
): number | null =>
  recorded === undefined || recorded.length > 0 || init._tag === "Alive" ? 0 : findWitnesses(sandbox).length

/**
 * The facts of this moment. preparing.json is read before identity.json: a launch publishes the second before it
 * removes the first, so that one of them is always seen.
 */
export const gatherFacts = (folder: SandboxFolder, sandbox: SandboxId): GuestFacts => {
  const tombstone = readTombstone(folder)
  const preparing = tombstone === undefined ? readPreparing(folder) : undefined
  const identity = tombstone === undefined ? readIdentity(folder) : undefined
  const bootId = readBootId()
  const recorded = identity ?? preparing
  const isThisBoot = recorded !== undefined && recorded.bootId === bootId
  const groups = isThisBoot ? recorded.groups : []
  const init = isThisBoot ? seeInit(identity) : SeenInit.Gone()
  return {
    bootId,
    tombstone: tombstone?.proof ?? null,
    preparing: preparing ?? null,
    identity: identity ?? null,
    groups: groups.map(seeGroup),
    init,
    witnesses: isThisBoot ? countWitnesses(sandbox, groups, init) : 0,
    frozen: isStill(groups),
    exit: recorded === undefined ? null : readStatus(folder).exit,
    generation: recorded?.generation ?? readRun(folder)?.generation ?? firstGeneration
  }
}
