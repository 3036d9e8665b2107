/**
 * Whether a launch may be made, decided from what was seen of the sandbox. Pure. The launch itself, and the lock
 * under which this is decided, are the supervisor's.
 */
import * as Data from "effect/Data"
import type { Generation } from "../Identity.ts"
import { type GuestIdentity, GuestObservation } from "./GuestSupervisor.ts"
import type { GuestSpec } from "./GuestSpec.ts"

export type StartDecision = Data.TaggedEnum<{
  /** The attempt runs already: its identity is the answer. */
  Adopt: { readonly identity: GuestIdentity }
  Launch: {}
  Refuse: { readonly state: string }
}>
export const StartDecision = Data.taggedEnum<StartDecision>()

/** What the sandbox's files tell of the latest launch, whether its guest lives or not. */
export interface FormerLaunch {
  readonly generation: Generation
  readonly attemptId: string
  /** The guest was recorded: its first instruction may have run. */
  readonly hadGuest: boolean
}

const ofIdentity = (spec: GuestSpec, identity: GuestIdentity): StartDecision =>
  identity.attemptId === spec.attemptId && identity.generation === spec.generation
    ? StartDecision.Adopt({ identity })
    : StartDecision.Refuse({ state: `running generation ${identity.generation} as another attempt` })

const ofAbsence = (spec: GuestSpec, former: FormerLaunch | null): StartDecision => {
  if (former === null) return StartDecision.Launch()
  if (former.generation > spec.generation) {
    return StartDecision.Refuse({ state: `at generation ${former.generation} already` })
  }
  return former.hadGuest && former.attemptId === spec.attemptId
    ? StartDecision.Refuse({ state: "ended: this attempt has run" })
    : StartDecision.Launch()
}

/**
 * One guest a sandbox, one run an attempt: a living guest of the same attempt is adopted, anything that may live
 * refuses, an attempt whose guest has ended is not made again. Source: RG-RUN-02, RG-RUN-03, RG-DEL-10.
 */
export const decideStart = (
  spec: GuestSpec,
  observation: GuestObservation,
  former: FormerLaunch | null
): StartDecision =>
  GuestObservation.match(observation, {
    Running: ({ identity }) => ofIdentity(spec, identity),
    Paused: ({ identity }) => ofIdentity(spec, identity),
    Unsettled: () => StartDecision.Refuse({ state: "unsettled: end it first" }),
    Uncertain: () => StartDecision.Refuse({ state: "uncertain: an operator has to look" }),
    Gone: ({ tombstone }) =>
      tombstone ? StartDecision.Refuse({ state: "reclaimed: its id is used up" }) : ofAbsence(spec, former)
  })
