/** Secrets as people name them: by the name that they gave, or by id. Source: RL section 2.1. */
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { TenantId } from "../Identity.ts"
import type { Secret } from "./Secret.ts"
import { createSecret, listSecrets, rotateSecret } from "./vault.ts"

/** The tenant has no secret of that name or id. */
export class SecretNotFound extends Schema.TaggedError<SecretNotFound>()("SecretNotFound", {
  reference: Schema.String
}) {
  readonly code = "secret_not_found"
  override get message(): string {
    return `the tenant has no secret ${this.reference}: see secret list`
  }
}

/** The secret of that id, or else of that name. */
export const findSecret = Effect.fn("secrets.find")(function* (tenant: TenantId, reference: string) {
  const secrets = yield* listSecrets(tenant)
  const found = secrets.find(({ id }) => id === reference) ?? secrets.find(({ name }) => name === reference)
  return found ?? (yield* new SecretNotFound({ reference }))
})

/** Gives the secret of that name this value: a first version, or the next one. */
export const setSecret = Effect.fn("secrets.set")(function* (asked: {
  readonly tenant: TenantId
  readonly name: string
  readonly value: Redacted.Redacted
}) {
  const { name, tenant, value } = asked
  const present = (secrets: ReadonlyArray<Secret>) => secrets.find((secret) => secret.name === name)
  const rotate = ({ id }: Secret) => rotateSecret({ tenant, secret: id, value })
  const found = present(yield* listSecrets(tenant))
  if (found !== undefined) return yield* rotate(found)
  return yield* createSecret(asked).pipe(
    // Somebody else made it meanwhile.
    Effect.catchTag("SecretExists", (taken) =>
      Effect.gen(function* () {
        const made = present(yield* listSecrets(tenant))
        return yield* made === undefined ? taken : rotate(made)
      })
    )
  )
})
