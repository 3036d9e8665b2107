/**
 * Claiming a repository and giving it up: at most one works on it at a time, and the others learn who. The claim stays
 * durable until there is evidence that the work in the guest has ended, as an execution's lease does.
 *
 *     claimRepository ─ claim, again every 100 ms for at most 10 s ─> handle ─> finalize(evidence)
 *     heartbeat.ts renews meanwhile; sweep.ts takes away what a dead process has left
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import {
  projectRepositoriesMax,
  repositoryContendedLooksMax,
  repositoryContendedMillis,
  repositoryPollMillis,
  repositoryWaitMillisMax
} from "../Bounds.ts"
import { Identifiers } from "../Identifiers.ts"
import { LeaseId, type ProjectId } from "../Identity.ts"
import type { StorageFailure } from "../persistence/PluginDb.ts"
import { claimingRepository, HeldLeases, type HeldRepository } from "./HeldLeases.ts"
import { type ExecutionEvidence, type GuestPlace, LeaseLost } from "./Lease.ts"
import { RepositoriesFull, RepositoryBusy, RepositoryClaim, type RepositoryName } from "./RepositoryClaim.ts"
import { type ReleasedClaim, RepositoryClaims } from "./RepositoryClaims.ts"
import { isEnded, settleClaim } from "./settlement.ts"

export interface RepositoryRequest extends GuestPlace {
  readonly project: ProjectId
  readonly repository: RepositoryName
  /** How long to wait for another one's end, in milliseconds; at most `repositoryWaitMillisMax`, which is the default. */
  readonly waitMillis?: number
}

export type ClaimRefused = RepositoryBusy | RepositoriesFull | LeaseLost

/** What the holder of a repository works with. */
export interface RepositoryHandle {
  readonly claim: RepositoryClaim
  /** By this process's monotonic clock and the last heartbeats; costs nothing. Source: FC-11. */
  readonly isValid: Effect.Effect<boolean>
  /** Asks the table too. Called before anything is done to the repository, and behind it. Source: SP-LEASE-07. */
  readonly confirm: Effect.Effect<void, LeaseLost | StorageFailure>
  /**
   * Gives the repository up on evidence that the work on it has ended; without evidence for this very guest it is
   * retained. Where the database fails the heartbeat settles it later. Repeatable. Source: SP-LEASE-03, SP-LEASE-06.
   */
  readonly finalize: (
    evidence: Option.Option<ExecutionEvidence>
  ) => Effect.Effect<ReleasedClaim | "retained", StorageFailure>
}

/** One try. A claim that was not made is forgotten; one whose answer was lost is settled by the scope's end. */
const tryClaim = Effect.fnUntraced(function* (claim: RepositoryClaim) {
  const claims = yield* RepositoryClaims
  const { repositories } = yield* HeldLeases
  const held = claimingRepository(claim, yield* Clock.monotonicTimeNanos)
  repositories.announce(held)
  const answer = yield* claims.claim(claim)
  if (answer._tag === "Won") repositories.admitted(claim.id)
  else repositories.forget(held)
  return answer
}, Effect.uninterruptible)

/** A rival who has not committed has no name yet; his commit takes milliseconds. */
const tryClaimKnowingly = (claim: RepositoryClaim) =>
  Effect.repeat(tryClaim(claim), {
    until: (answer) => answer._tag !== "Contended",
    schedule: Schedule.spaced(repositoryContendedMillis),
    times: repositoryContendedLooksMax
  })

/** Tries until the repository is had, or the time for it is over; the last try is at its very end. */
const claimInTime = Effect.fnUntraced(function* (claim: RepositoryClaim, waitMillis: number) {
  const beganAtNanos = yield* Clock.monotonicTimeNanos
  const { project, repository } = claim
  for (;;) {
    const answer = yield* tryClaimKnowingly(claim)
    if (answer._tag === "Won") return
    if (answer._tag === "Full") {
      return yield* new RepositoriesFull({ project, repositoriesMax: projectRepositoriesMax })
    }
    if (answer._tag === "Replaced") return yield* new LeaseLost({ lease: claim.id, reason: "generation" })
    const waitedMillis = Number((yield* Clock.monotonicTimeNanos) - beganAtNanos) / 1e6
    if (waitedMillis >= waitMillis) {
      const [holder, sinceMillis] =
        answer._tag === "Held" ? [answer.process, answer.sinceMillis] : [null, null]
      return yield* new RepositoryBusy({ project, repository, holder, sinceMillis })
    }
    yield* Effect.sleep(Math.min(repositoryPollMillis, waitMillis - waitedMillis))
  }
})

const finalizeHeld = Effect.fn("leases.finalizeRepository")(function* (
  held: HeldRepository,
  evidence: Option.Option<ExecutionEvidence>
) {
  return isEnded(held, evidence) ? yield* settleClaim(held) : ("retained" as const)
}, Effect.uninterruptible)

/** The end of the scope: what never reached its holder is released, what he said nothing of is retained. */
const close = Effect.fnUntraced(function* (id: LeaseId) {
  const held = (yield* HeldLeases).repositories.get(id)
  if (held === undefined) return
  const ended = yield* finalizeHeld(held, Option.none()).pipe(Effect.option)
  if (Option.contains(ended, "retained")) {
    yield* Effect.logWarning(
      `repository ${held.claim.repository} of project ${held.claim.project} is kept: the work on it is not known to have ended`
    )
  }
})

const makeHandle = Effect.fnUntraced(function* (held: HeldRepository) {
  const claims = yield* RepositoryClaims
  const { repositories } = yield* HeldLeases
  const context = yield* Effect.context<RepositoryClaims | HeldLeases>()
  const whyNot = Effect.map(Clock.monotonicTimeNanos, (now) => repositories.whyInvalid(held, now))
  const confirm = Effect.gen(function* () {
    const reason = (yield* whyNot) ?? Option.getOrNull(yield* claims.whyUnusable(held.claim))
    if (reason !== null) return yield* new LeaseLost({ lease: held.id, reason })
  })
  const handle: RepositoryHandle = {
    claim: held.claim,
    isValid: Effect.map(whyNot, (reason) => reason === null),
    confirm: confirm.pipe(Effect.withSpan("leases.confirmRepository")),
    finalize: (evidence) => finalizeHeld(held, evidence).pipe(Effect.provideContext(context))
  }
  return handle
})

/**
 * Claims the repository for this process and holds it until the scope ends or `finalize` is given evidence. Waits for
 * another holder, looking every `repositoryPollMillis`, and is interruptible meanwhile. Whether the Project is active
 * and the caller may is asked by the intent that follows. Refused with `RepositoryBusy`, `RepositoriesFull`, and with
 * `LeaseLost` where the machine was replaced. Source: SP-LEASE-02, SP figures.
 */
export const claimRepository: (
  request: RepositoryRequest
) => Effect.Effect<
  RepositoryHandle,
  ClaimRefused | StorageFailure,
  Scope.Scope | RepositoryClaims | HeldLeases | Identifiers
> = Effect.fn("leases.claimRepository")(function* (request) {
  const { repositories, written } = yield* HeldLeases
  const id = LeaseId.make(yield* (yield* Identifiers).uuid)
  const { generation, project, repository, sandbox } = request
  const claim = new RepositoryClaim({ id, project, repository, generation, sandbox, process: written })
  const waitMillis = Math.min(request.waitMillis ?? repositoryWaitMillisMax, repositoryWaitMillisMax)
  return yield* Effect.uninterruptibleMask(
    Effect.fnUntraced(function* (restore) {
      // Before the first try: whatever becomes of it, the scope's end leaves no row without a holder.
      yield* Effect.addFinalizer(() => close(id))
      yield* restore(claimInTime(claim, waitMillis))
      const held = repositories.get(id)
      if (held === undefined)
        return yield* Effect.die(new Error("a claim that was won is not in the register"))
      return yield* makeHandle(held)
    })
  )
})
