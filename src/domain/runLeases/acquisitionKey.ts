/**
 * Acquisitions that are repeated under a request key: what makes two of them the same request, and the note by which a
 * later repetition finds the lease of the first. Source: FC-04.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Digests } from "../Digests.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import type { RequestKey } from "../Identity.ts"
import { canonicalText, isJsonObject } from "../Json.ts"
import type { Acquisition } from "./EnvironmentDriver.ts"
import { AcquisitionKeyConflict } from "./RunLeaseErrors.ts"
import { SharedAcquisitions } from "./SharedAcquisitions.ts"

/** Everything that a caller asks for; the environment's config is not his, and may change between two repetitions. */
const fingerprintOf = (sha256: (text: string) => string, asked: Acquisition): string => {
  const { environment, note: _note, requestKey: _key, ...rest } = asked
  return sha256(canonicalText({ ...rest, environment: environment.id }))
}

/** The request with the note by which its row is found again; as it is without a key. */
export const notedRequest = (sha256: (text: string) => string, asked: Acquisition): Acquisition =>
  asked.requestKey === undefined
    ? asked
    : {
        ...asked,
        note: { acquisitionRequest: { key: asked.requestKey, fingerprint: fingerprintOf(sha256, asked) } }
      }

const isNotedAs = ({ metadata }: EnvironmentLease, fingerprint: string): boolean => {
  const note = metadata["acquisitionRequest"]
  return isJsonObject(note) && note["fingerprint"] === fingerprint
}

/** Answers the lease that an earlier request under the key got, or carries the request out. */
const repeatOrAcquire = Effect.fnUntraced(function* <R>(
  asked: Acquisition & { readonly requestKey: RequestKey },
  fingerprint: string,
  acquire: Effect.Effect<EnvironmentLease, Error, R>
) {
  const { requestKey, tenant } = asked
  const earlier = yield* EnvironmentLeaseStore.use((store) => store.leaseOfRequest(tenant, requestKey))
  if (Option.isNone(earlier)) return yield* acquire
  return isNotedAs(earlier.value, fingerprint)
    ? earlier.value
    : yield* new AcquisitionKeyConflict({ requestKey })
})

/**
 * Carries out an acquisition once for each request key of a tenant: repetitions join the one that is under way, and get
 * the lease of the one that is done. Refused with `AcquisitionKeyConflict` when the key came with another request.
 */
export const acquireOnce = Effect.fnUntraced(function* <R>(
  asked: Acquisition,
  acquire: (noted: Acquisition) => Effect.Effect<EnvironmentLease, Error, R>
) {
  const { requestKey, tenant } = asked
  if (requestKey === undefined) return yield* acquire(asked)
  const { sha256 } = yield* Digests
  const fingerprint = fingerprintOf(sha256, asked)
  const context = yield* Effect.context<R | EnvironmentLeaseStore>()
  const work = repeatOrAcquire({ ...asked, requestKey }, fingerprint, acquire(notedRequest(sha256, asked)))
  return yield* SharedAcquisitions.use((shared) =>
    shared.share({ tenant, requestKey, fingerprint }, Effect.provideContext(work, context))
  )
})
