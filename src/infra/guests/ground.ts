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
import { askAgent, openAgentLink } from "./agentLink.ts"
import type { BubblewrapFeatures } from "./bubblewrap.ts"
import type { CgroupLayout } from "./cgroups.ts"
import { endFormerExecutions } from "./executionBond.ts"
import { gatherFacts } from "./facts.ts"
import { folderOf, type SandboxFolder } from "./folders.ts"
import { closeDesk, type ExecutionDesk, openDesk, removeFormerHanded } from "./runners.ts"
import type { LaunchKit } from "./launchKits.ts"
import type { LaunchShell } from "./launchShell.ts"
import type { Stock } from "./stock.ts"
import type { Staging } from "./staging.ts"
import type { UserIds } from "./userIds.ts"

export interface Ground {
  readonly stateDirectory: string
  readonly layout: CgroupLayout
  readonly capabilities: GuestCapabilities
  readonly bubblewrap: BubblewrapFeatures
  readonly filter: Uint8Array | null
  /** The daemon's own group of version 2; null: none. */
  readonly ownGroup: string | null
  readonly shell: LaunchShell
  readonly staging: Staging
  readonly userIds: UserIds
  readonly desks: Map<SandboxId, ExecutionDesk>
  /** Whether the host's env can give a command the default signals back. */
  readonly envResetsSignals: boolean
  readonly kits: Stock<LaunchKit, never>
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
    Effect.tryPromise({
      try: run,
      catch: (error) => guestFailure(sandbox, step, errorName(error))
    })
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

/** Closes the desk of a guest that has ended, or that another attempt takes the place of. */
export const forgetDesk = (ground: Ground, sandbox: SandboxId): void => {
  const desk = ground.desks.get(sandbox)
  if (desk !== undefined) closeDesk(desk)
  ground.desks.delete(sandbox)
}

/** Keeps the desk of a guest whose agent has answered. */
export const keepDesk = (ground: Ground, desk: ExecutionDesk): ExecutionDesk => {
  const { sandbox } = desk.link.identity
  forgetDesk(ground, sandbox)
  ground.desks.set(sandbox, desk)
  return desk
}

/** Opens the pipes of a guest that an earlier daemon launched, and ends what that daemon's executions have left. */
const adopt = (ground: Ground, identity: GuestIdentity): Effect.Effect<ExecutionDesk, GuestFailure> =>
  Effect.gen(function* () {
    const { sandbox } = identity
    const link = yield* attempt(sandbox, "open the agent's pipes", () =>
      openAgentLink({
        identity,
        folder: folderIn(ground, sandbox),
        owner: ownerOf(ground, identity),
        channels: [],
        name: ground.channelName,
        shell: ground.shell
      })
    )
    const keeper = yield* askAgent(link, Bounds.guestPingMillisMax)
    if (keeper === undefined) {
      link.close()
      return yield* guestFailure(sandbox, "ping", "the guest's agent does not answer")
    }
    yield* endFormerExecutions(identity, keeper)
    yield* attempt(sandbox, "remove what former commands were handed", () =>
      removeFormerHanded(folderIn(ground, sandbox).agent)
    )
    return keepDesk(ground, openDesk(link))
  })

const openedDesk = (ground: Ground, identity: GuestIdentity): ExecutionDesk | undefined => {
  const desk = ground.desks.get(identity.sandbox)
  return desk?.link.identity.attemptId === identity.attemptId ? desk : undefined
}

/** The desk of a running guest, for a caller that holds the sandbox's gate. */
export const deskUnderGate = (
  ground: Ground,
  identity: GuestIdentity
): Effect.Effect<ExecutionDesk, GuestFailure> =>
  Effect.suspend(() => {
    const known = openedDesk(ground, identity)
    return known === undefined ? adopt(ground, identity) : Effect.succeed(known)
  })

/** The desk of a running guest, opened when this daemon has none. */
export const deskOf = (ground: Ground, identity: GuestIdentity): Effect.Effect<ExecutionDesk, GuestFailure> =>
  Effect.suspend(() => {
    const known = openedDesk(ground, identity)
    if (known !== undefined) return Effect.succeed(known)
    // Two callers at once must not end each other's executions.
    return ground.gate(identity.sandbox)(deskUnderGate(ground, identity))
  })
