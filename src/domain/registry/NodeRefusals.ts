/** What the node refuses to somebody who asks it for sandboxes directly, beside what the registry itself refuses. */
import * as Schema from "effect/Schema"
import { RequestKey, SandboxId } from "../Identity.ts"

/** The key was used for another request. Nothing was done. */
export class IdempotencyConflict extends Schema.TaggedError<IdempotencyConflict>()("IdempotencyConflict", {
  key: RequestKey,
  sandbox: SandboxId
}) {
  readonly code = "idempotency_conflict"
  override get message(): string {
    return `the key ${this.key} was used for another request, which made ${this.sandbox}: take another key`
  }
}

/** The sandbox's life is over; only its deletion is left. */
export class SandboxExpired extends Schema.TaggedError<SandboxExpired>()("SandboxExpired", {
  sandbox: SandboxId,
  expiredAtMillis: Schema.Int
}) {
  readonly code = "sandbox_expired"
  override get message(): string {
    return `${this.sandbox} has expired: the node deletes it`
  }
}

/** The sandbox is recorded and charged, and its guest did not come up. */
export class SandboxCreateFailed extends Schema.TaggedError<SandboxCreateFailed>()("SandboxCreateFailed", {
  sandbox: SandboxId,
  why: Schema.String
}) {
  readonly code = "sandbox_create_failed"
  override get message(): string {
    return `${this.sandbox} was not started and keeps its reservation: ${this.why}: ask again with the same key, or delete it`
  }
}

/** The guest is up and its agent does not answer. */
export class EndpointUnavailable extends Schema.TaggedError<EndpointUnavailable>()("EndpointUnavailable", {
  sandbox: SandboxId,
  why: Schema.String
}) {
  readonly code = "endpoint_unavailable"
  override get message(): string {
    return `the endpoint of ${this.sandbox} does not answer: ${this.why}`
  }
}
