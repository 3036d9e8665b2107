/**
 * What is remembered of a sandbox beside its proof: whose request it was, what it reserved, how it went, and who
 * wanted it gone. It outlives the record in the tombstone, so that `why` can be answered and a request key stays
 * spent. It holds no secret, and no reservation is decided by it. Source: BX-02, FC-22.
 */
import * as Schema from "effect/Schema"
import { GuestIdentity } from "../guests/GuestSupervisor.ts"
import { RequestKey } from "../Identity.ts"

/** The request that a sandbox was made for. The hash covers everything that was asked but the environment's values. */
export const RequestOrigin = Schema.Struct({
  key: RequestKey,
  /** SHA-256 in hex. */
  hash: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/)),
  actor: Schema.String,
  /** When its guest first ran. Until then the request is not carried out, and asking it again goes on with it. */
  startedAtMillis: Schema.NullOr(Schema.Int)
})
export type RequestOrigin = typeof RequestOrigin.Type

/** A state that the record took, when, by the node's clock, and what was wanted. */
export const StatusMoment = Schema.Struct({
  status: Schema.String,
  atMillis: Schema.Int,
  wanted: Schema.String
})
export type StatusMoment = typeof StatusMoment.Type

/** The guest that was last recorded: a process that cannot be taken for a later one. */
export const RememberedGuest = Schema.Struct({
  supervisor: GuestIdentity.fields.supervisor,
  generation: GuestIdentity.fields.generation,
  bootId: GuestIdentity.fields.bootId,
  init: GuestIdentity.fields.init,
  userId: GuestIdentity.fields.userId
})
export type RememberedGuest = typeof RememberedGuest.Type

export const Provenance = Schema.Struct({
  /** Null: not asked for under a key, but by a program of the host. */
  origin: Schema.NullOr(RequestOrigin),
  /** What its metadata names as its Project. The host names one for its own sandboxes; anybody may. */
  project: Schema.NullOr(Schema.String),
  cpuMillis: Schema.Int,
  memoryBytes: Schema.Int,
  createdAtMillis: Schema.Int,
  expiresAtMillis: Schema.Int,
  history: Schema.Array(StatusMoment),
  statusReason: Schema.NullOr(Schema.String),
  deletion: Schema.NullOr(
    Schema.Struct({ reason: Schema.String, actor: Schema.String, requestedAtMillis: Schema.Int })
  ),
  guest: Schema.NullOr(RememberedGuest)
})
export type Provenance = typeof Provenance.Type
