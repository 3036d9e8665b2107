import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import {
  secretBytesMax,
  secretBytesMin,
  secretNameCharactersMax,
  secretRotationTriesMax
} from "../../../src/domain/Bounds.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { EnvironmentId, SecretId } from "../../../src/domain/Identity.ts"
import type { SecretCipher, SecretRef } from "../../../src/domain/secrets/Secret.ts"
import { SecretStore } from "../../../src/domain/secrets/SecretStore.ts"
import { listSecrets, openBound, openRecorded, rotateSecret } from "../../../src/domain/secrets/vault.ts"
import { Clone } from "../../support/clone.ts"
import { bound, environmentWith, otherTenant, secretNamed, tenant, vaultOnClone } from "./fixture.ts"

const latest = (secretId: SecretId): SecretRef => ({ type: "secret_ref", secretId, version: "latest" })
const unknownSecret = SecretId.make("00000000-0000-4000-8000-0000000000ff")

const rotate = (secret: SecretId, value: string, owner = tenant) =>
  rotateSecret({ tenant: owner, secret, value: Redacted.make(value) })

const opened = (secret: SecretId, owner = tenant) =>
  Effect.map(openRecorded({ tenant: owner, ref: latest(secret) }), ({ value, version }) => ({
    version,
    value: Redacted.value(value)
  }))

/** Everything that the tables of secrets hold, as text, with bytes as they are. */
const storedText = Effect.flatMap(Clone, ({ admin }) =>
  Effect.map(
    admin(`select coalesce(string_agg(t, ' '), '') as text from (
      select s::text as t from core.secrets s
      union all select v::text || encode(v.box, 'escape') from core.secret_versions v
      union all select b::text from core.secret_bindings b) all_of_it`),
    ([row]) => String(row?.["text"])
  )
)

const refusedValues: ReadonlyArray<readonly [what: string, value: string]> = [
  ["too short", "x".repeat(secretBytesMin - 1)],
  ["too long", "x".repeat(secretBytesMax + 1)],
  ["with NUL", "canary\0canary"],
  ["with half a character", "canary \ud800 canary"]
]

const refusedNames: ReadonlyArray<readonly [what: string, name: string]> = [
  ["empty", ""],
  ["blank", "  "],
  ["with a line break", "a\nb"],
  ["too long", "n".repeat(secretNameCharactersMax + 1)]
]

describe("secrets/vault", () => {
  it.layer(vaultOnClone)((it) => {
    it.effect("a secret is listed with its name and version, and opens to its value", () =>
      Effect.gen(function* () {
        const secret = yield* secretNamed("listed", "canary-listed")
        const found = (yield* listSecrets(tenant)).find(({ id }) => id === secret)
        assert.deepInclude({ ...found }, { name: "listed", version: 1, provider: "local_encrypted", tenant })
        assert.deepStrictEqual(yield* opened(secret), { version: 1, value: "canary-listed" })
        assert.notInclude(yield* listSecrets(otherTenant), found)
      })
    )

    it.effect("a second secret of the name is refused, another tenant's is its own", () =>
      Effect.gen(function* () {
        yield* secretNamed("twice", "canary-first")
        const refusal = yield* Effect.flip(secretNamed("twice", "canary-second"))
        assert.strictEqual(refusal._tag, "SecretExists")
        yield* secretNamed("twice", "canary-other", otherTenant)
      })
    )

    for (const [what, value] of refusedValues) {
      it.effect(`a value ${what} is refused and not repeated`, () =>
        Effect.gen(function* () {
          const secret = yield* secretNamed(`value ${what}`, "canary-before")
          const refusals = [
            yield* Effect.flip(secretNamed("refused", value)),
            yield* Effect.flip(rotate(secret, value))
          ]
          for (const refusal of refusals) {
            assert.strictEqual(refusal._tag, "SecretRefused")
            assert.notInclude(JSON.stringify(refusal) + refusal.message, "canary")
          }
          assert.strictEqual((yield* opened(secret)).version, 1)
        })
      )
    }

    for (const [what, name] of refusedNames) {
      it.effect(`a name that is ${what} is refused`, () =>
        Effect.gen(function* () {
          const refusal = yield* Effect.flip(secretNamed(name, "canary-named"))
          assert.deepInclude({ ...refusal }, { _tag: "SecretRefused", what: "name" })
        })
      )
    }

    it.effect("RL-SECRET-06 a rotation adds a version, and latest means it; a pinned one stays", () =>
      Effect.gen(function* () {
        const secret = yield* secretNamed("rotated", "canary-old")
        const environment = yield* environmentWith({})
        yield* bound(environment.id, "apiKey", secret)
        assert.strictEqual((yield* rotate(secret, "canary-new")).version, 2)
        const open = (version: SecretRef["version"]) =>
          Effect.map(
            openBound({
              tenant,
              environment: environment.id,
              configPath: "apiKey",
              ref: { ...latest(secret), version }
            }),
            (found) => [found.version, Redacted.value(found.value)]
          )
        assert.deepStrictEqual(yield* open("latest"), [2, "canary-new"])
        assert.deepStrictEqual(yield* open(1), [1, "canary-old"])
        const absent = yield* Effect.flip(open(3))
        assert.deepInclude({ ...absent }, { _tag: "SecretAbsent", why: "version" })
      })
    )

    it.effect("rotations at one moment each get a version of their own", () =>
      Effect.gen(function* () {
        const secret = yield* secretNamed("contended", "canary-zero")
        const values = ["canary-one", "canary-two", "canary-three"]
        const versions = yield* Effect.forEach(values, (value) => rotate(secret, value), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(versions.map(({ version }) => version).toSorted(), [2, 3, 4])
      })
    )

    it.effect("a rotation that others always precede gives up after its tries, and says so", () =>
      Effect.gen(function* () {
        const secret = yield* secretNamed("always late", "canary-late")
        const store = yield* SecretStore
        let tries = 0
        const late = SecretStore.of({
          ...store,
          addVersion: () => Effect.sync(() => ((tries += 1), Option.none()))
        })
        const refusal = yield* Effect.flip(
          rotate(secret, "canary-never").pipe(Effect.provideService(SecretStore, late))
        )
        assert.strictEqual(refusal._tag, "SecretContended")
        assert.strictEqual(tries, secretRotationTriesMax)
      })
    )

    it.effect("another tenant neither rotates, binds nor opens it", () =>
      Effect.gen(function* () {
        const secret = yield* secretNamed("foreign", "canary-foreign", otherTenant)
        const environment = yield* environmentWith({})
        const attempts: ReadonlyArray<
          Effect.Effect<unknown, { readonly _tag: string; readonly why?: string }, SecretCipher | SecretStore>
        > = [
          rotate(secret, "canary-taken"),
          bound(environment.id, "apiKey", secret),
          opened(secret),
          opened(unknownSecret)
        ]
        for (const attempt of attempts) {
          const refusal = yield* Effect.flip(attempt)
          assert.deepInclude({ ...refusal }, { _tag: "SecretAbsent", why: "unknown" })
        }
        assert.deepStrictEqual(yield* opened(secret, otherTenant), { version: 1, value: "canary-foreign" })
      })
    )

    it.effect("a secret opens for a call only where it is bound: environment, place and secret", () =>
      Effect.gen(function* () {
        const [mine, another] = [
          yield* secretNamed("bound here", "canary-here"),
          yield* secretNamed("bound elsewhere", "canary-elsewhere")
        ]
        const [here, elsewhere] = [yield* environmentWith({}), yield* environmentWith({})]
        yield* bound(here.id, "apiKey", mine)
        yield* bound(elsewhere.id, "apiKey", another)
        const open = (environment: EnvironmentId, configPath: string, secret: SecretId) =>
          openBound({ tenant, environment, configPath, ref: latest(secret) })
        assert.strictEqual(Redacted.value((yield* open(here.id, "apiKey", mine)).value), "canary-here")
        const wrong: ReadonlyArray<readonly [EnvironmentId, string, SecretId]> = [
          [here.id, "token", mine],
          [elsewhere.id, "apiKey", mine],
          [here.id, "apiKey", another],
          [EnvironmentId.make("00000000-0000-4000-8000-0000000000ee"), "apiKey", mine]
        ]
        for (const asked of wrong) {
          const refusal = yield* Effect.flip(open(...asked))
          assert.deepInclude({ ...refusal }, { _tag: "SecretAbsent", why: "unbound" })
        }
        const foreign = openBound({
          tenant: otherTenant,
          environment: here.id,
          configPath: "apiKey",
          ref: latest(mine)
        })
        assert.deepInclude({ ...(yield* Effect.flip(foreign)) }, { why: "unbound" })
      })
    )

    it.effect(
      "RL-SECRET-04 a binding takes the place of the former one and goes with its environment; a recorded secret opens all the same",
      () =>
        Effect.gen(function* () {
          const [former, next] = [
            yield* secretNamed("former", "canary-former"),
            yield* secretNamed("next", "canary-next")
          ]
          const { id: environment } = yield* environmentWith({})
          const open = (secret: SecretId) =>
            openBound({ tenant, environment, configPath: "apiKey", ref: latest(secret) })
          yield* bound(environment, "apiKey", former)
          yield* bound(environment, "apiKey", next)
          yield* open(next)
          assert.strictEqual((yield* Effect.flip(open(former)))._tag, "SecretAbsent")
          yield* EnvironmentStore.use((store) => store.remove(environment))
          assert.strictEqual((yield* Effect.flip(open(next)))._tag, "SecretAbsent")
          assert.strictEqual((yield* opened(former)).value, "canary-former")
        })
    )

    it.effect("FC-21 no table holds a value in the clear", () =>
      Effect.gen(function* () {
        const secret = yield* secretNamed("canary of the tables", "canary-in-table-1")
        yield* rotate(secret, "canary-in-table-2")
        const text = yield* storedText
        assert.include(text, "canary of the tables")
        assert.notInclude(text, "canary-in-table")
      })
    )
  })
})
