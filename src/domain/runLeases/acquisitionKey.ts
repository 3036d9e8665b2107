/**
 * Acquisitions that are repeated under a request key: what makes two of them the same request, and the note by which a
 * later repetition finds the lease of the first. Source: FC-04.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { acquisitionElsewhereMillisMax, acquisitionElsewherePollMillis } from "../Bounds.ts"
import { Digests } from "../Digests.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { AcquisitionRequestTaken, type KeyedRequest } from "../environments/ProviderIntent.ts"
import { parseProcessIdentity, type TenantId } from "../Identity.ts"
import { canonicalText, isJsonObject } from "../Json.ts"
import { Processes } from "../Processes.ts"
import type { Acquisition } from "./EnvironmentDriver.ts"
import { AcquisitionKeyConflict, AcquisitionUnderWay } from "./RunLeaseErrors.ts"
import { SharedAcquisitions } from "./SharedAcquisitions.ts"

/** Everything that a caller asks for; the environment's config is not his, and may change between two repetitions. */
const fingerprintOf = (sha256: (text: string) => string, asked: Acquisition): string => {
  const { environment, note: _note, request: _request, requestKey: _key, ...rest } = asked
  return sha256(canonicalText({ ...rest, environment: environment.id }))
}

/** The request with the note by which its row is found again; as it is without a key. */
export const notedRequest = (sha256: (text: string) => string, asked: Acquisition): Acquisition => {
  if (asked.requestKey === undefined) return asked
  const request = { key: asked.requestKey, fingerprint: fingerprintOf(sha256, asked) }
  return { ...asked, request, note: { acquisitionRequest: request } }
}

const isNotedAs = ({ metadata }: EnvironmentLease, fingerprint: string): boolean => {
  const note = metadata["acquisitionRequest"]
  return isJsonObject(note) && note["fingerprint"] === fingerprint
}

/** The lease that an earlier request under the key got; none where there is none yet. */
const earlierLease = Effect.fnUntraced(function* (tenant: TenantId, { fingerprint, key }: KeyedRequest) {
  const earlier = yield* EnvironmentLeaseStore.use((store) => store.leaseOfRequest(tenant, key))
  if (Option.isSome(earlier) && !isNotedAs(earlier.value, fingerprint))
    return yield* new AcquisitionKeyConflict({ requestKey: key })
  return earlier
})

/**
 * Whether somebody else carries the request out. Of one whose process is gone nobody waits for an answer: what it made is
 * found by its intent, and the key is free.
 */
const isHeldElsewhere = Effect.fnUntraced(function* (tenant: TenantId, { fingerprint, key }: KeyedRequest) {
  const store = yield* EnvironmentLeaseStore
  const holder = Option.getOrUndefined(yield* store.holderOfRequest(tenant, key))
  if (holder === undefined) return false
  if (holder.fingerprint !== fingerprint) return yield* new AcquisitionKeyConflict({ requestKey: key })
  const liveness = yield* Processes.use(({ liveness }) => liveness(parseProcessIdentity(holder.process)))
  if (liveness !== "dead") return true
  yield* store.freeRequestKey(holder.intent)
  return false
})

/**
 * Answers the lease that the request got, from whichever daemon, or carries it out. Its intent decides who of several does:
 * the others wait for that one's answer, for `acquisitionElsewhereMillisMax`.
 */
const answerOrAcquire = Effect.fnUntraced(function* <R>(
  tenant: TenantId,
  request: KeyedRequest,
  acquire: Effect.Effect<EnvironmentLease, Error, R>
) {
  const giveUpAtNanos = (yield* Clock.monotonicTimeNanos) + BigInt(acquisitionElsewhereMillisMax) * 1_000_000n
  for (;;) {
    // In this order: who holds it no more has its lease by then, since the one becomes the other in a transaction.
    if (!(yield* isHeldElsewhere(tenant, request))) {
      const earlier = yield* earlierLease(tenant, request)
      if (Option.isSome(earlier)) return earlier.value
      const answer = yield* Effect.result(acquire)
      if (Result.isSuccess(answer)) return answer.success
      if (!(answer.failure instanceof AcquisitionRequestTaken)) return yield* Effect.fail(answer.failure)
    }
    if ((yield* Clock.monotonicTimeNanos) >= giveUpAtNanos)
      return yield* new AcquisitionUnderWay({ requestKey: request.key })
    yield* Effect.sleep(acquisitionElsewherePollMillis)
  }
})

/**
 * Carries out an acquisition once for each request key of a tenant, whichever daemon is asked: repetitions join the one that
 * is under way, and get the lease of the one that is done. Refused with `AcquisitionKeyConflict` when the key came with
 * another request, and with `AcquisitionUnderWay` when another daemon takes too long.
 */
export const acquireOnce = Effect.fnUntraced(function* <R>(
  asked: Acquisition,
  acquire: (noted: Acquisition) => Effect.Effect<EnvironmentLease, Error, R>
) {
  const { requestKey, tenant } = asked
  if (requestKey === undefined) return yield* acquire(asked)
  const { sha256 } = yield* Digests
  const fingerprint = fingerprintOf(sha256, asked)
  const context = yield* Effect.context<R | EnvironmentLeaseStore | Processes>()
  const request = { key: requestKey, fingerprint }
  const work = answerOrAcquire(tenant, request, acquire(notedRequest(sha256, asked)))
  return yield* SharedAcquisitions.use((shared) =>
    shared.share({ tenant, requestKey, fingerprint }, Effect.provideContext(work, context))
  )
})
