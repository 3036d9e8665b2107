/** Secrets by the names that people gave them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Identifiers } from "../../../src/domain/Identifiers.ts"
import type { SecretCipher } from "../../../src/domain/secrets/Secret.ts"
import { findSecret, setSecret } from "../../../src/domain/secrets/secretAccess.ts"
import { SecretExists, SecretStore } from "../../../src/domain/secrets/SecretStore.ts"
import { createSecret, openRecorded } from "../../../src/domain/secrets/vault.ts"
import { newTenant, onClone } from "../runLeases/fixture.ts"

const value = (text: string) => Redacted.make(`${text}-long-enough`)

describe("secrets/secretAccess", () => {
  it.live("setting makes a secret, and then gives the same one another value", () =>
    Effect.gen(function* () {
      const tenant = yield* newTenant
      const made = yield* setSecret({ tenant, name: "key", value: value("one") })
      const again = yield* setSecret({ tenant, name: "key", value: value("two") })
      assert.deepStrictEqual([made.version, again.version, again.id], [1, 2, made.id])
      const ref = { type: "secret_ref", secretId: made.id, version: "latest" } as const
      assert.strictEqual(Redacted.value((yield* openRecorded({ tenant, ref })).value), "two-long-enough")
    }).pipe(onClone)
  )

  it.live("one that somebody else made meanwhile is rotated", () =>
    Effect.gen(function* () {
      const tenant = yield* newTenant
      const context = yield* Effect.context<SecretStore | SecretCipher | Identifiers>()
      const store = yield* SecretStore
      const asked = { tenant, name: "key", value: value("mine") }
      const racing: SecretStore["Service"] = {
        ...store,
        create: ({ name }) =>
          createSecret({ ...asked, value: value("theirs") }).pipe(
            Effect.provideContext(context),
            Effect.orDie,
            Effect.andThen(Effect.fail(new SecretExists({ name })))
          )
      }
      const set = yield* setSecret(asked).pipe(Effect.provideService(SecretStore, racing))
      assert.strictEqual(set.version, 2)
    }).pipe(onClone)
  )

  it.live("a secret is found by id or name, in its own tenant alone", () =>
    Effect.gen(function* () {
      const [tenant, other] = [yield* newTenant, yield* newTenant]
      const { id } = yield* setSecret({ tenant, name: "key", value: value("one") })
      assert.strictEqual((yield* findSecret(tenant, "key")).id, id)
      assert.strictEqual((yield* findSecret(tenant, id)).id, id)
      assert.strictEqual((yield* Effect.flip(findSecret(other, id)))._tag, "SecretNotFound")
    }).pipe(onClone)
  )
})
