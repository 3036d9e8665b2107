/**
 * What is done with secrets: made, rotated, closed under another key, bound, and opened at the last moment before a call.
 * A value is in the clear only between its caller and the lock; the store sees boxes. Source: RL section 2.1, RL-SECRET
 * rules, FC-20, FC-21.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { secretBytesMax, secretBytesMin, secretNameCharactersMax, secretRotationTriesMax } from "../Bounds.ts"
import { Identifiers } from "../Identifiers.ts"
import { type EnvironmentId, SecretId, type TenantId } from "../Identity.ts"
import { type Secret, SecretCipher, type SecretRef } from "./Secret.ts"
import { SecretAbsent, SecretStore } from "./SecretStore.ts"

/** The name or the value cannot be kept. Nothing of the value is told. */
export class SecretRefused extends Schema.TaggedError<SecretRefused>()("SecretRefused", {
  what: Schema.Literals(["name", "value"])
}) {
  readonly code = "secret_refused"
  override get message(): string {
    return this.what === "name"
      ? `a secret's name has 1 to ${secretNameCharactersMax} characters and no control characters: choose another one`
      : `a secret's value has ${secretBytesMin} to ${secretBytesMax} bytes and no NUL: give another one`
  }
}

/** Others rotated the secret each time that this rotation was about to. */
export class SecretContended extends Schema.TaggedError<SecretContended>()("SecretContended", {
  secret: SecretId
}) {
  readonly code = "secret_contended"
  override get message(): string {
    return `secret ${this.secret} is being rotated by others: look at its version, then try again`
  }
}

const controls = /\p{Cc}/u

const requireName = (name: string): Effect.Effect<void, SecretRefused> =>
  name.trim() !== "" && name.length <= secretNameCharactersMax && !controls.test(name)
    ? Effect.void
    : Effect.fail(new SecretRefused({ what: "name" }))

/** Text that would not come back as it went in is refused too: a lone surrogate has no UTF-8. */
const requireValue = (value: Redacted.Redacted): Effect.Effect<void, SecretRefused> => {
  const text = Redacted.value(value)
  const bytes = new TextEncoder().encode(text).length
  return bytes >= secretBytesMin && bytes <= secretBytesMax && !text.includes("\0") && text.isWellFormed()
    ? Effect.void
    : Effect.fail(new SecretRefused({ what: "value" }))
}

/** Seals version 1 and stores it. Refused by name or value, by another secret of that name, and when there is no room. */
export const createSecret = Effect.fn("secrets.create")(function* (asked: {
  readonly tenant: TenantId
  readonly name: string
  readonly value: Redacted.Redacted
}) {
  const { name, tenant, value } = asked
  yield* requireName(name)
  yield* requireValue(value)
  const id = SecretId.make(yield* (yield* Identifiers).uuid)
  const sealed = yield* (yield* SecretCipher).seal(id, 1, value)
  return yield* (yield* SecretStore).create({ id, tenant, name, sealed })
})

const requireSecret = Effect.fnUntraced(function* (tenant: TenantId, secret: SecretId) {
  const found = yield* (yield* SecretStore).byId(tenant, secret)
  if (Option.isNone(found)) return yield* new SecretAbsent({ secret, why: "unknown" })
  return found.value
})

/**
 * Adds the next version, which `latest` means from then on. A box is bound to its version, so one that somebody else has
 * taken meanwhile is sealed anew, at most `secretRotationTriesMax` times. Source: RL-REUSE-15.
 */
export const rotateSecret = Effect.fn("secrets.rotate")(function* (asked: {
  readonly tenant: TenantId
  readonly secret: SecretId
  readonly value: Redacted.Redacted
}) {
  const { secret, tenant, value } = asked
  yield* requireValue(value)
  const [cipher, store] = [yield* SecretCipher, yield* SecretStore]
  for (let tries = 0; tries < secretRotationTriesMax; tries += 1) {
    const { version: newest }: Secret = yield* requireSecret(tenant, secret)
    const version = newest + 1
    const sealed = yield* cipher.seal(secret, version, value)
    const rotated = yield* store.addVersion(tenant, { secret, version, sealed })
    if (Option.isSome(rotated)) return rotated.value
  }
  return yield* new SecretContended({ secret })
})

/** The tenant's secrets, never their values. */
export const listSecrets = Effect.fn("secrets.list")(function* (tenant: TenantId) {
  return yield* (yield* SecretStore).list(tenant)
})

/** Allows an environment the use of a secret at one place of its config; a former binding there ends. */
export const bindSecret = Effect.fn("secrets.bind")(function* (binding: {
  readonly tenant: TenantId
  readonly secret: SecretId
  readonly environment: EnvironmentId
  readonly configPath: string
}) {
  yield* (yield* SecretStore).bind(binding)
})

/**
 * Closes every box of another key anew under the current one, page by page. Each box is a step of its own, so it may be
 * cut off anywhere and begun again. A box that no key of the ring opens stays as it is and is counted: the ring lacks its
 * key. Source: RL section 2.1.
 */
export const rekeySecrets = Effect.fn("secrets.rekey")(function* () {
  const [cipher, store] = [yield* SecretCipher, yield* SecretStore]
  let [rekeyed, unreadable] = [0, 0]
  let page = yield* store.closedByOtherKeys(cipher.currentKey)
  while (page.length > 0) {
    for (const former of page) {
      const { sealed, secret, version } = former
      const value = yield* Effect.option(cipher.open(secret, version, sealed))
      if (Option.isNone(value)) {
        unreadable += 1
        continue
      }
      const anew = yield* cipher.seal(secret, version, value.value)
      // Where the box is another's already, another rekeying was here.
      if (yield* store.reseal(former, anew)) rekeyed += 1
    }
    const last = page[page.length - 1]!
    page = yield* store.closedByOtherKeys(cipher.currentKey, last)
  }
  return { rekeyed, unreadable }
})

export interface OpenedSecret {
  readonly secret: SecretId
  readonly version: number
  readonly value: Redacted.Redacted
}

const openVersion = Effect.fnUntraced(function* (
  tenant: TenantId,
  secret: SecretId,
  version: number | "latest"
) {
  const found = yield* (yield* SecretStore).version(tenant, secret, version)
  if (Option.isNone(found)) {
    yield* requireSecret(tenant, secret)
    return yield* new SecretAbsent({ secret, why: "version" })
  }
  const value = yield* (yield* SecretCipher).open(secret, found.value.version, found.value.sealed)
  const opened: OpenedSecret = { secret, version: found.value.version, value }
  return opened
})

/**
 * Opens what the config of a living environment refers to. The binding is what allows it: the secret must be bound to
 * that environment at that place, for that tenant.
 */
export const openBound = Effect.fn("secrets.openBound")(function* (asked: {
  readonly tenant: TenantId
  readonly environment: EnvironmentId
  readonly configPath: string
  readonly ref: SecretRef
}) {
  const { configPath, environment, ref, tenant } = asked
  const bound = yield* (yield* SecretStore).bound(tenant, environment, configPath)
  if (Option.getOrUndefined(bound) !== ref.secretId) {
    return yield* new SecretAbsent({ secret: ref.secretId, why: "unbound" })
  }
  return yield* openVersion(tenant, ref.secretId, ref.version)
})

/**
 * Opens the secret that a lease recorded, inside its tenant and without a binding: for teardown alone, whose environment
 * may be gone or bound to something else. The newest version whatever was recorded, since it is the one that the provider
 * still takes. Source: RL-SECRET-04, U10.
 */
export const openRecorded = Effect.fn("secrets.openRecorded")(function* (asked: {
  readonly tenant: TenantId
  readonly ref: SecretRef
}) {
  return yield* openVersion(asked.tenant, asked.ref.secretId, "latest")
})
