import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { secretRekeyPageMax } from "../../../src/domain/Bounds.ts"
import type { SecretId } from "../../../src/domain/Identity.ts"
import { SecretCipher } from "../../../src/domain/secrets/Secret.ts"
import { SecretStore } from "../../../src/domain/secrets/SecretStore.ts"
import { openRecorded, rekeySecrets, rotateSecret } from "../../../src/domain/secrets/vault.ts"
import { cipherOf, secondKey, secretNamed, tenant, vaultOnClone } from "./fixture.ts"

/** What the secret opens to, under whatever lock is there. */
const opened = (secret: SecretId) =>
  Effect.map(
    openRecorded({ tenant, ref: { type: "secret_ref", secretId: secret, version: "latest" } }),
    ({ value }) => Redacted.value(value)
  )

const withLock = (lock: SecretCipher["Service"]) => Effect.provideService(SecretCipher, lock)

/** The fixture's key as the former one of a ring whose current key is the second. */
const bothKeys = Effect.gen(function* () {
  const former = yield* SecretCipher
  const current = yield* Effect.provide(Effect.service(SecretCipher), cipherOf(secondKey))
  const ring = SecretCipher.of({
    ...current,
    open: (id, version, sealed) =>
      (sealed.key === current.currentKey ? current : former).open(id, version, sealed)
  })
  return { current, ring }
})

describe("secrets/vault, rekeying", () => {
  it.layer(vaultOnClone)((it) => {
    it.effect(
      "boxes of a former key are all closed anew, beyond a page, and open with the new key alone",
      () =>
        Effect.gen(function* () {
          const versions = secretRekeyPageMax + 3
          const secret = yield* secretNamed("many versions", "canary-version-1")
          for (let version = 2; version <= versions; version += 1) {
            yield* rotateSecret({ tenant, secret, value: Redacted.make(`canary-version-${version}`) })
          }
          const { current, ring } = yield* bothKeys
          const rekey = rekeySecrets().pipe(withLock(ring))
          assert.deepStrictEqual(yield* rekey, { rekeyed: versions, unreadable: 0 })
          assert.deepStrictEqual(yield* rekey, { rekeyed: 0, unreadable: 0 })
          assert.strictEqual(yield* opened(secret).pipe(withLock(current)), `canary-version-${versions}`)
          assert.strictEqual((yield* Effect.flip(opened(secret)))._tag, "SecretUnreadable")
        })
    )
  })

  it.layer(vaultOnClone)((it) => {
    it.effect(
      "a box that no key opens stays, is counted, and holds nothing up, were there a page of them",
      () =>
        Effect.gen(function* () {
          const store = yield* SecretStore
          const strange = yield* Effect.provide(Effect.service(SecretCipher), cipherOf("33".repeat(32)))
          const lost = yield* secretNamed("lost", "canary-lost")
          for (let version = 2; version <= secretRekeyPageMax + 1; version += 1) {
            yield* rotateSecret({ tenant, secret: lost, value: Redacted.make("canary-lost") }).pipe(
              withLock(strange)
            )
          }
          const first = Option.getOrThrow(yield* store.version(tenant, lost, 1))
          yield* store.reseal(first, yield* strange.seal(lost, 1, Redacted.make("canary-lost")))
          // Some lie before the lost one and some behind it.
          const readable = yield* Effect.forEach(["a", "b", "c", "d", "e", "f"], (name) =>
            secretNamed(name, `canary-of-${name}`)
          )
          const { current, ring } = yield* bothKeys
          const counted = yield* rekeySecrets().pipe(withLock(ring))
          assert.deepStrictEqual(counted, { rekeyed: readable.length, unreadable: secretRekeyPageMax + 1 })
          assert.deepStrictEqual(yield* Effect.forEach(readable, opened).pipe(withLock(current)), [
            "canary-of-a",
            "canary-of-b",
            "canary-of-c",
            "canary-of-d",
            "canary-of-e",
            "canary-of-f"
          ])
          assert.strictEqual(yield* opened(lost).pipe(withLock(strange)), "canary-lost")
        })
    )
  })

  it.layer(vaultOnClone)((it) => {
    it.effect("a rekeying that was cut off is gone on with; every box opens meanwhile", () =>
      Effect.gen(function* () {
        const store = yield* SecretStore
        const secrets = yield* Effect.forEach(["one", "two", "three"], (name) =>
          secretNamed(name, `canary-${name}`)
        )
        const { current, ring } = yield* bothKeys
        let asked = 0
        const cut = SecretStore.of({
          ...store,
          reseal: (former, sealed) => {
            asked += 1
            return asked > 1 ? Effect.interrupt : store.reseal(former, sealed)
          }
        })
        const rekey = rekeySecrets().pipe(withLock(ring))
        yield* Fiber.await(yield* Effect.forkChild(Effect.provideService(rekey, SecretStore, cut)))
        const values = ["canary-one", "canary-two", "canary-three"]
        assert.deepStrictEqual(yield* Effect.forEach(secrets, opened).pipe(withLock(ring)), values)
        assert.deepStrictEqual(yield* rekey, { rekeyed: 2, unreadable: 0 })
        assert.deepStrictEqual(yield* Effect.forEach(secrets, opened).pipe(withLock(current)), values)
      })
    )

    it.effect("a box that another rekeying closed meanwhile is left as that one made it", () =>
      Effect.gen(function* () {
        const store = yield* SecretStore
        const secret = yield* secretNamed("raced", "canary-raced")
        const { current, ring } = yield* bothKeys
        const late = SecretStore.of({
          ...store,
          reseal: (former, sealed) =>
            Effect.andThen(
              Effect.flatMap(ring.seal(secret, 1, Redacted.make("canary-raced")), (anew) =>
                store.reseal(former, anew)
              ),
              store.reseal(former, sealed)
            )
        })
        const counted = yield* rekeySecrets().pipe(withLock(ring), Effect.provideService(SecretStore, late))
        assert.deepStrictEqual(counted, { rekeyed: 0, unreadable: 0 })
        assert.strictEqual(yield* opened(secret).pipe(withLock(current)), "canary-raced")
      })
    )
  })
})
