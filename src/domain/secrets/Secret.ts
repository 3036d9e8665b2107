/**
 * Secrets of a tenant: a name, and versions that are only ever added. A value lives sealed in the database and in the
 * clear for as long as one call needs it. Source: RL-SECRET rules, FC-20, FC-21.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { SecretId, TenantId } from "../Identity.ts"

export class Secret extends Schema.Class<Secret>("holdfast/Secret")({
  id: SecretId,
  tenant: TenantId,
  name: Schema.String,
  provider: Schema.Literal("local_encrypted"),
  /** The newest version, from 1. */
  version: Schema.Int,
  createdAtMillis: Schema.Int,
  rotatedAtMillis: Schema.Int
}) {}

/** What a configuration holds in a secret's place. A plain string that is a uuid means the same with `latest`. */
export const SecretRef = Schema.Struct({
  type: Schema.Literal("secret_ref"),
  secretId: SecretId,
  version: Schema.Union([Schema.Literal("latest"), Schema.Int.check(Schema.isGreaterThan(0))])
})
export type SecretRef = typeof SecretRef.Type

/** A value under lock. `key` names which key of the ring closed it, so that keys can be rotated. */
export const SealedSecret = Schema.Struct({
  key: Schema.String,
  nonce: Schema.Uint8Array,
  box: Schema.Uint8Array
})
export type SealedSecret = typeof SealedSecret.Type

/**
 * A sealed value cannot be opened: its key is not in the ring, or the box was changed. Nothing of the value or of the
 * box is told.
 */
export class SecretUnreadable extends Schema.TaggedError<SecretUnreadable>()("SecretUnreadable", {
  secret: SecretId,
  key: Schema.String
}) {
  readonly code = "secret_unreadable"
  override get message(): string {
    return `secret ${this.secret} cannot be opened with key ${this.key}: put that key back into the key file, or set the secret anew`
  }
}

/**
 * Port of the lock: AES-256-GCM, bound to the secret's id and version, so that a box cannot be moved to another row.
 */
export class SecretCipher extends Context.Service<
  SecretCipher,
  {
    /** Name of the key that closes new boxes. */
    readonly currentKey: string
    readonly seal: (
      secret: SecretId,
      version: number,
      value: Redacted.Redacted
    ) => Effect.Effect<SealedSecret>
    readonly open: (
      secret: SecretId,
      version: number,
      sealed: SealedSecret
    ) => Effect.Effect<Redacted.Redacted, SecretUnreadable>
  }
>()("holdfast/domain/secrets/Secret/SecretCipher") {}
