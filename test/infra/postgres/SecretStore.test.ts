/** Sealed secrets, their versions and bindings; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import { secretRekeyPageMax, secretVersionsMax } from "../../../src/domain/Bounds.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { SecretId } from "../../../src/domain/Identity.ts"
import type { SealedSecret } from "../../../src/domain/secrets/Secret.ts"
import { SecretStore } from "../../../src/domain/secrets/SecretStore.ts"
import { newEnvironment, newTenant, onClone } from "../../domain/runLeases/fixture.ts"
import { sql, value } from "../../domain/runLeases/rawRows.ts"

const sealed = (content: string, key = "k1"): SealedSecret => ({
  key,
  nonce: new Uint8Array([0, 1, 255]),
  box: new TextEncoder().encode(content)
})

const secretId = () => SecretId.make(randomUUID())

const newSecret = (tenant: Effect.Success<typeof newTenant>, content = "one") =>
  SecretStore.use((store) =>
    store.create({ id: secretId(), tenant, name: randomUUID(), sealed: sealed(content) })
  )

describe("SecretStore", () => {
  it.live("RL-SECRET-06 versions are added one after the other, and each is read as it was sealed", () =>
    Effect.gen(function* () {
      const store = yield* SecretStore
      const [tenant, foreign] = [yield* newTenant, yield* newTenant]
      const id = secretId()
      const first = yield* store.create({ id, tenant, name: "key", sealed: sealed("one") })
      assert.deepInclude(first, { id, tenant, name: "key", provider: "local_encrypted", version: 1 })
      const second = yield* store.addVersion(tenant, { secret: id, version: 2, sealed: sealed("two", "k2") })
      assert.strictEqual(Option.getOrThrow(second).version, 2)
      const stale = { secret: id, version: 2, sealed: sealed("late") }
      assert.deepStrictEqual(yield* store.addVersion(tenant, stale), Option.none())
      assert.deepStrictEqual(yield* store.addVersion(tenant, { ...stale, version: 4 }), Option.none())
      assert.deepStrictEqual(yield* store.addVersion(foreign, { ...stale, version: 3 }), Option.none())
      const read = (version: number | "latest") =>
        Effect.map(
          store.version(tenant, id, version),
          Option.map(({ sealed: box }) => box)
        )
      assert.deepStrictEqual(yield* read("latest"), Option.some(sealed("two", "k2")))
      assert.deepStrictEqual(yield* read(1), Option.some(sealed("one")))
      assert.deepStrictEqual(yield* read(3), Option.none())
      assert.deepStrictEqual(yield* store.version(foreign, id, "latest"), Option.none())
      assert.deepStrictEqual(yield* store.byId(tenant, id), second)
      assert.deepStrictEqual(yield* store.byId(foreign, id), Option.none())
      const again = yield* Effect.flip(
        store.create({ id: secretId(), tenant, name: "key", sealed: sealed("x") })
      )
      assert.deepInclude(again, { _tag: "SecretExists", name: "key" })
      yield* store.create({ id: secretId(), tenant: foreign, name: "key", sealed: sealed("x") })
      assert.deepStrictEqual(yield* store.list(tenant), [Option.getOrThrow(second)])
      assert.strictEqual(yield* value("select count(*)::int from core.secret_versions"), 3)
    }).pipe(onClone)
  )

  it.live(
    "RL-SECRET-06 of two rotations of one moment one is the next version, and the other learns it",
    () =>
      Effect.gen(function* () {
        const store = yield* SecretStore
        const tenant = yield* newTenant
        const { id } = yield* newSecret(tenant)
        const answers = yield* Effect.all(
          ["a", "b", "c", "d"].map((content) =>
            store.addVersion(tenant, { secret: id, version: 2, sealed: sealed(content) })
          ),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(answers.filter(Option.isSome).length, 1)
        assert.strictEqual(Option.getOrThrow(yield* store.byId(tenant, id)).version, 2)
      }).pipe(onClone)
  )

  it.live("FC-15 a secret has as many versions as its bound", () =>
    Effect.gen(function* () {
      const store = yield* SecretStore
      const tenant = yield* newTenant
      const { id } = yield* newSecret(tenant)
      yield* sql("update core.secrets set version = $2::int where id = $1::uuid", [id, secretVersionsMax])
      const version = { secret: id, version: secretVersionsMax + 1, sealed: sealed("x") }
      assert.deepInclude(yield* Effect.flip(store.addVersion(tenant, version)), {
        code: "secrets_full",
        table: "secret_versions"
      })
    }).pipe(onClone)
  )

  it.live(
    "RL 2.1 a binding takes the place of the former one, is its tenant's, and goes with its environment",
    () =>
      Effect.gen(function* () {
        const store = yield* SecretStore
        const [tenant, foreign] = [yield* newTenant, yield* newTenant]
        const environment = (yield* newEnvironment("sandbox")).id
        const [one, two, theirs] = [
          yield* newSecret(tenant),
          yield* newSecret(tenant),
          yield* newSecret(foreign)
        ]
        const at = { environment, configPath: "apiKey" }
        const bound = store.bound(tenant, environment, "apiKey")
        yield* store.bind({ ...at, tenant, secret: one.id })
        yield* store.bind({ ...at, tenant: foreign, secret: theirs.id })
        assert.deepStrictEqual(yield* bound, Option.some(one.id))
        yield* store.bind({ ...at, tenant, secret: two.id })
        assert.deepStrictEqual(yield* bound, Option.some(two.id))
        assert.deepStrictEqual(yield* store.bound(tenant, environment, "other"), Option.none())
        assert.deepStrictEqual(yield* store.bound(foreign, environment, "apiKey"), Option.some(theirs.id))
        const unknown = { _tag: "SecretAbsent", why: "unknown" } as const
        assert.deepInclude(yield* Effect.flip(store.bind({ ...at, tenant, secret: theirs.id })), unknown)
        yield* EnvironmentStore.use((environments) => environments.remove(environment))
        assert.deepStrictEqual(yield* bound, Option.none())
        assert.strictEqual(yield* value("select count(*)::int from core.secret_bindings"), 0)
        assert.deepInclude(yield* Effect.flip(store.bind({ ...at, tenant, secret: one.id })), unknown)
      }).pipe(onClone)
  )

  it.live(
    "FC-20 boxes of other keys come in pages, and one is replaced only while it is the one that was read",
    () =>
      Effect.gen(function* () {
        const store = yield* SecretStore
        const tenant = yield* newTenant
        const { id } = yield* newSecret(tenant)
        yield* sql(
          `insert into core.secret_versions (secret_id, version, key, nonce, box)
          select $1::uuid, n + 1, case when n <= $2::int then 'k1' else 'k2' end, ''::bytea, ''::bytea
          from generate_series(1, $2::int + 5) n`,
          [id, secretRekeyPageMax]
        )
        const page = yield* store.closedByOtherKeys("k2")
        assert.deepStrictEqual(
          page.map(({ sealed: { key }, version }) => [version, key]),
          Array.from({ length: secretRekeyPageMax }, (_, place) => [place + 1, "k1"])
        )
        const [former] = page
        if (former === undefined) return assert.fail("there is one")
        assert.isTrue(yield* store.reseal(former, sealed("again", "k2")))
        assert.isFalse(yield* store.reseal(former, sealed("late", "k2")))
        const changed = { ...former, sealed: { ...sealed("other box", "k2") } }
        assert.isFalse(yield* store.reseal(changed, sealed("late", "k3")))
        const read = yield* store.version(tenant, id, 1)
        assert.deepStrictEqual(Option.getOrThrow(read).sealed, sealed("again", "k2"))
        const behind = yield* store.closedByOtherKeys("k2", { secret: id, version: secretRekeyPageMax - 1 })
        assert.deepStrictEqual(
          behind.map(({ version }) => version),
          [secretRekeyPageMax, secretRekeyPageMax + 1]
        )
      }).pipe(onClone)
  )
})
