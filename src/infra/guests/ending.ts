/**
 * Ends a guest: asks its main process, waits the grace, then kills everything in the order that always ends, and looks
 * again. What was seen at the end is the answer; that it is an absence is decided in the domain.
 */
import * as Effect from "effect/Effect"
import * as Bounds from "../../domain/Bounds.ts"
import type { GuestFacts } from "../../domain/guests/GuestFacts.ts"
import { decideObservation } from "../../domain/guests/GuestFacts.ts"
import type { ObservedProcess, OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import type { GuestFailure, GuestObservation } from "../../domain/guests/GuestSupervisor.ts"
import type { SandboxId } from "../../domain/Identity.ts"
import { emptyEvents, killGroups } from "./cgroupControl.ts"
import { isPopulated } from "./cgroups.ts"
import { attempt, folderIn, forgetDesk, type Ground, deskUnderGate, lookAt, observe } from "./ground.ts"
import { isAlive, signalIfAlive } from "./kernel.ts"
import { abandonLaunches } from "./launchFiles.ts"
import { waitUntil } from "./waiting.ts"
import { findWitnesses } from "./witnesses.ts"

/** What is to be ended: the recorded groups where there are any, else the processes themselves. */
interface Target {
  readonly sandbox: SandboxId
  readonly groups: ReadonlyArray<OwnedGroup>
  readonly known: ReadonlyArray<ObservedProcess>
}

export const targetOf = (sandbox: SandboxId, facts: GuestFacts): Target => ({
  sandbox,
  groups: facts.identity?.groups ?? facts.preparing?.groups ?? [],
  known: facts.identity === null ? [] : [facts.identity.init, facts.identity.monitor]
})

const isEnded = (target: Target): boolean =>
  !target.groups.some((group) => isPopulated(group.path)) &&
  !target.known.some(isAlive) &&
  (target.groups.length > 0 || findWitnesses(target.sandbox).length === 0)

const killOnce = (target: Target): void => {
  if (target.groups.length > 0) return killGroups(target.groups)
  const all = [...target.known, ...findWitnesses(target.sandbox)]
  for (const each of all) signalIfAlive(each, "SIGKILL")
}

/** Kills until nothing is left; answers whether it is so. */
export const killAll = (target: Target): Effect.Effect<boolean> =>
  Effect.suspend(() => {
    killOnce(target)
    let looks = 0
    const fact = () => {
      if (isEnded(target)) return true
      looks += 1
      // One write ends everything where the kernel can; elsewhere a fork may have escaped.
      if (looks % 10 === 0) killOnce(target)
      return false
    }
    const poll = target.groups.length > 0 ? Bounds.cgroupRemovalPauseMillis : 20
    return waitUntil(fact, { watch: null, pollMillis: poll, millisMax: Bounds.guestEndMillisMax })
  })

/**
 * Nobody is left whom the grace is for. With init the kernel has ended all of the guest; what may still be in its groups
 * are helpers of the host's, such as bridges of its ports, which end when they are killed and not before.
 */
const isOver = (target: Target): boolean =>
  isEnded(target) || (target.known.length > 0 && !target.known.some(isAlive))

/** Asks the main process to end and waits; a guest that does not answer is killed anyway. */
const askToEnd = (ground: Ground, observation: GuestObservation, target: Target, graceMillis: number) =>
  Effect.gen(function* () {
    if (observation._tag !== "Running" || graceMillis <= 0) return
    const desk = yield* Effect.option(deskUnderGate(ground, observation.identity))
    if (desk._tag === "None" || !desk.value.link.order("term")) return
    const poll = target.groups.length > 0 ? Bounds.guestEndPollMillis : 50
    yield* waitUntil(() => isOver(target), {
      watch: emptyEvents(target.groups),
      pollMillis: Math.min(poll, Math.max(1, graceMillis)),
      millisMax: graceMillis
    })
  })

/**
 * Init's end comes before its monitor's word about it: a monitor that still lives gets a moment for that word. With
 * everything else of the guest it is killed afterwards.
 */
const awaitReport = ({ identity }: GuestFacts, status: string): Effect.Effect<unknown> => {
  if (identity === null || isAlive(identity.init) || !isAlive(identity.monitor)) return Effect.void
  return waitUntil(() => !isAlive(identity.monitor), {
    watch: status,
    pollMillis: Bounds.guestPollMillis,
    millisMax: Bounds.guestReportMillisMax
  })
}

/**
 * Ends the guest, for a caller that holds the sandbox's gate. A guest that is gone is left as it is; one whose record
 * the kernel contradicts is not touched. Source: RG-DEL-06.
 */
export const endUnderGate = (
  ground: Ground,
  sandbox: SandboxId,
  graceMillis: number
): Effect.Effect<GuestObservation, GuestFailure> =>
  Effect.gen(function* () {
    yield* attempt(sandbox, "abandon the launch", () => abandonLaunches(folderIn(ground, sandbox)))
    const facts = yield* lookAt(ground, sandbox)
    const observation = decideObservation(facts)
    if (observation._tag === "Gone" || observation._tag === "Uncertain") {
      yield* Effect.sync(() => forgetDesk(ground, sandbox))
      return observation
    }
    const target = targetOf(sandbox, facts)
    yield* askToEnd(ground, observation, target, graceMillis)
    yield* awaitReport(facts, folderIn(ground, sandbox).status)
    yield* Effect.uninterruptible(killAll(target))
    yield* Effect.sync(() => forgetDesk(ground, sandbox))
    return yield* observe(ground, sandbox)
  })
