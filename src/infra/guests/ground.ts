/**
 * What the parts of the process supervisor share: where state lies, which hierarchies there are, how a guest's user is
 * reached, and the open links to agents. Also how an error of the machine becomes a GuestFailure, once.
 */
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import * as Bounds from "../../domain/Bounds.ts"
import { decideObservation, type GuestFacts } from "../../domain/guests/GuestFacts.ts"
import type { GuestCapabilities } from "../../domain/guests/GuestSpec.ts"
import {
  GuestFailure,
  type GuestIdentity,
  type GuestObservation,
  GuestStateRefused
} from "../../domain/guests/GuestSupervisor.ts"
import type { SandboxId } from "../../domain/Identity.ts"
import { errorName } from "../filesystem/privateFiles.ts"
import { type AgentLink, askAgent, openAgentLink } from "./agentLink.ts"
import type { BubblewrapFeatures } from "./bubblewrap.ts"
import type { CgroupLayout } from "./cgroups.ts"
import { endFormerExecutions } from "./executionBond.ts"
import { gatherFacts } from "./facts.ts"
import { folderOf, type SandboxFolder } from "./folders.ts"
import type { Staging } from "./staging.ts"
import type { UserIds } from "./userIds.ts"

export interface Ground {
  readonly stateDirectory: string
  readonly layout: CgroupLayout
  readonly capabilities: GuestCapabilities
  readonly bubblewrap: BubblewrapFeatures
  readonly filter: Uint8Array | null
  readonly strays: ReadonlyArray<number>
  readonly staging: Staging
  readonly userIds: UserIds
  readonly links: Map<SandboxId, AgentLink>
  /** One launch or end of a sandbox at a time in this daemon. */
  readonly gate: (sandbox: SandboxId) => <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Draws names of channels. */
  readonly channelName: () => string
}

/** Gates that are forgotten with their last user: asking for unknown ids grows nothing. */
export const makeGate = (): Ground["gate"] => {
  const gates = new Map<SandboxId, { readonly one: Semaphore.Semaphore; users: number }>()
  return (sandbox) => (effect) =>
    Effect.suspend(() => {
      const gate = gates.get(sandbox) ?? { one: Semaphore.makeUnsafe(1), users: 0 }
      gates.set(sandbox, gate)
      gate.users += 1
      return gate.one.withPermit(effect).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            gate.users -= 1
            if (gate.users === 0) gates.delete(sandbox)
          })
        )
      )
    })
}

export const guestFailure = (sandbox: SandboxId, step: string, detail: string): GuestFailure =>
  new GuestFailure({ sandbox, step, detail })

/** Runs a short synchronous step of the machine; an error carries its name only. */
export const attempt = <A>(sandbox: SandboxId, step: string, run: () => A): Effect.Effect<A, GuestFailure> =>
  Effect.try({ try: run, catch: (error) => guestFailure(sandbox, step, errorName(error)) })

/** The same for a step that waits for the disk. Not to be interrupted: the write would go on. */
export const attemptAsync = <A>(
  sandbox: SandboxId,
  step: string,
  run: () => Promise<A>
): Effect.Effect<A, GuestFailure> =>
  Effect.uninterruptible(
    Effect.tryPromise({ try: run, catch: (error) => guestFailure(sandbox, step, errorName(error)) })
  )

export const folderIn = (ground: Ground, sandbox: SandboxId): SandboxFolder =>
  folderOf(ground.stateDirectory, sandbox)

/** Host user that a guest's files are given to; null where the daemon's own is used. */
export const ownerOf = (ground: Ground, identity: GuestIdentity): number | null =>
  ground.userIds.isPrivate ? identity.userId : null

export const lookAt = (ground: Ground, sandbox: SandboxId): Effect.Effect<GuestFacts, GuestFailure> =>
  attempt(sandbox, "inspect", () => gatherFacts(folderIn(ground, sandbox), sandbox))

export const observe = (ground: Ground, sandbox: SandboxId): Effect.Effect<GuestObservation, GuestFailure> =>
  Effect.map(lookAt(ground, sandbox), decideObservation)

/** The identity of a running guest; any other state refuses the call. */
export const requireRunning = (
  ground: Ground,
  sandbox: SandboxId,
  call: string
): Effect.Effect<GuestIdentity, GuestFailure | GuestStateRefused> =>
  Effect.flatMap(observe(ground, sandbox), (observation) =>
    observation._tag === "Running"
      ? Effect.succeed(observation.identity)
      : Effect.fail(new GuestStateRefused({ sandbox, call, state: observation._tag.toLowerCase() }))
  )

export const closeLink = (ground: Ground, sandbox: SandboxId): void => {
  ground.links.get(sandbox)?.close()
  ground.links.delete(sandbox)
}

/** Opens the pipes of a guest that an earlier daemon launched, and ends what that daemon's executions have left. */
const adoptLink = (ground: Ground, identity: GuestIdentity): Effect.Effect<AgentLink, GuestFailure> =>
  Effect.gen(function* () {
    const { sandbox } = identity
    const link = yield* attempt(sandbox, "open the agent's pipes", () =>
      openAgentLink({
        identity,
        folder: folderIn(ground, sandbox),
        owner: ownerOf(ground, identity),
        channels: [],
        name: ground.channelName
      })
    )
    const keeper = yield* askAgent(link, Bounds.guestPingMillisMax)
    if (keeper === undefined) {
      link.close()
      return yield* guestFailure(sandbox, "ping", "the guest's agent does not answer")
    }
    yield* endFormerExecutions(identity, keeper)
    closeLink(ground, sandbox)
    ground.links.set(sandbox, link)
    return link
  })

const openedLink = (ground: Ground, identity: GuestIdentity): AgentLink | undefined => {
  const link = ground.links.get(identity.sandbox)
  return link?.identity.attemptId === identity.attemptId ? link : undefined
}

/** The link to a running guest's agent, for a caller that holds the sandbox's gate. */
export const linkUnderGate = (
  ground: Ground,
  identity: GuestIdentity
): Effect.Effect<AgentLink, GuestFailure> =>
  Effect.suspend(() => {
    const known = openedLink(ground, identity)
    return known === undefined ? adoptLink(ground, identity) : Effect.succeed(known)
  })

/** The link to a running guest's agent, opened when this daemon has none. */
export const linkTo = (ground: Ground, identity: GuestIdentity): Effect.Effect<AgentLink, GuestFailure> =>
  Effect.suspend(() => {
    const known = openedLink(ground, identity)
    if (known !== undefined) return Effect.succeed(known)
    // Two callers at once must not end each other's executions.
    return ground.gate(identity.sandbox)(linkUnderGate(ground, identity))
  })
