import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Files from "node:fs"
import * as Path from "node:path"
import { secretKeyFileBytesMax, secretKeysMax } from "../../../src/domain/Bounds.ts"
import { SecretId } from "../../../src/domain/Identity.ts"
import { SecretCipher, type SealedSecret } from "../../../src/domain/secrets/Secret.ts"
import { type SealedVersion, SecretStore } from "../../../src/domain/secrets/SecretStore.ts"
import { layer } from "../../../src/infra/filesystem/SecretCipher.ts"
import { temporaryDirectory } from "../../domain/registry/fixture.ts"

const secret = SecretId.make("00000000-0000-4000-8000-000000000001")
const other = SecretId.make("00000000-0000-4000-8000-000000000002")
const value = Redacted.make("canary: a value with ümläut")
const keyOne = "0a".repeat(32)
const keyTwo = "0b".repeat(32)

const sealedOnce: SealedVersion = {
  secret,
  version: 1,
  sealed: { key: "whatever", nonce: new Uint8Array(12), box: new Uint8Array(30) }
}

/** A store in which boxes lie, or none. */
const storeOf = (sealed: ReadonlyArray<SealedVersion>) =>
  Layer.mock(SecretStore)({ closedByOtherKeys: () => Effect.succeed(sealed) })

type Options = Parameters<typeof layer>[0]

const cipherWith = (options: Options, sealed: ReadonlyArray<SealedVersion> = []) =>
  Effect.service(SecretCipher).pipe(Effect.provide(Layer.provide(layer(options), storeOf(sealed))))

const withKey = (key: string) => cipherWith({ path: "/nowhere", environmentKey: Redacted.make(key) })

const put = (path: string, text: string, mode = 0o600): void => {
  Files.writeFileSync(path, text)
  Files.chmodSync(path, mode)
}

const flipped = (bytes: Uint8Array, at: number): Uint8Array =>
  bytes.map((byte, index) => (index === (at + bytes.length) % bytes.length ? byte ^ 1 : byte))

type Change = (sealed: SealedSecret) => SealedSecret

const spoilt: ReadonlyArray<readonly [what: string, change: Change]> = [
  ["whose text was changed", (sealed) => ({ ...sealed, box: flipped(sealed.box, 0) })],
  ["whose tag was changed", (sealed) => ({ ...sealed, box: flipped(sealed.box, -1) })],
  ["of another nonce", (sealed) => ({ ...sealed, nonce: flipped(sealed.nonce, 0) })],
  ["that was cut", (sealed) => ({ ...sealed, box: sealed.box.subarray(0, -1) })],
  ["that is shorter than a tag", (sealed) => ({ ...sealed, box: sealed.box.subarray(0, 7) })],
  ["that is empty", (sealed) => ({ ...sealed, box: new Uint8Array() })],
  ["without a nonce", (sealed) => ({ ...sealed, nonce: new Uint8Array() })],
  ["of a key that is not in the ring", (sealed) => ({ ...sealed, key: "another" })]
]

type Arrange = (path: string) => void

const refusedFiles: ReadonlyArray<readonly [what: string, arrange: Arrange, says: string]> = [
  ["that others may read", (path) => put(path, `${keyOne}\n`, 0o640), "mode is 640"],
  [
    "that is a link",
    (path) => {
      put(`${path}.real`, `${keyOne}\n`)
      Files.symlinkSync(`${path}.real`, path)
    },
    "symbolic link"
  ],
  ["that is a link to nothing", (path) => Files.symlinkSync(`${path}.real`, path), "symbolic link"],
  ["that is a directory", (path) => Files.mkdirSync(path, { mode: 0o700 }), "not a regular file"],
  ["that is empty", (path) => put(path, ""), "has no key"],
  ["with remarks alone", (path) => put(path, "# nothing\n\n"), "has no key"],
  [
    "with a key that is too short",
    (path) => put(path, `${keyOne}\n${keyTwo.slice(1)}\n`),
    "64 lower-case hex"
  ],
  ["with a key in capitals", (path) => put(path, `${keyOne.toUpperCase()}\n`), "64 lower-case hex"],
  ["with too many keys", (path) => put(path, `${keyOne}\n`.repeat(secretKeysMax + 1)), "more than"],
  ["that is too large", (path) => put(path, "#".repeat(secretKeyFileBytesMax + 1)), "larger than"]
]

describe("filesystem/SecretCipher", () => {
  it.effect("a box opens to what was put in, and no two boxes of one value are alike", () =>
    Effect.gen(function* () {
      const cipher = yield* withKey(keyOne)
      const [first, second] = [yield* cipher.seal(secret, 1, value), yield* cipher.seal(secret, 1, value)]
      assert.strictEqual(Redacted.value(yield* cipher.open(secret, 1, first)), Redacted.value(value))
      assert.notDeepEqual(first.nonce, second.nonce)
      assert.notDeepEqual(first.box, second.box)
      assert.strictEqual(first.key, cipher.currentKey)
      assert.notInclude(Buffer.from(first.box).toString("latin1"), "canary")
    })
  )

  it.effect("a box opens in no other place: neither for another secret nor for another version", () =>
    Effect.gen(function* () {
      const cipher = yield* withKey(keyOne)
      const sealed = yield* cipher.seal(secret, 1, value)
      for (const [owner, version] of [
        [other, 1],
        [secret, 2],
        [secret, 11]
      ] as const) {
        assert.strictEqual((yield* Effect.flip(cipher.open(owner, version, sealed)))._tag, "SecretUnreadable")
      }
    })
  )

  it.effect.each(spoilt)(
    "FC-21 a box %s does not open, and the refusal names no more than secret and key",
    ([, change]) =>
      Effect.gen(function* () {
        const cipher = yield* withKey(keyOne)
        const sealed = change(yield* cipher.seal(secret, 1, value))
        const refusal = yield* Effect.flip(cipher.open(secret, 1, sealed))
        assert.deepStrictEqual(
          { ...refusal },
          { _tag: "SecretUnreadable", code: "secret_unreadable", secret, key: sealed.key }
        )
        assert.isUndefined(refusal.cause)
        assert.notInclude(refusal.message, "canary")
      })
  )

  it.effect("a missing file is made with a random key, private, and serves the next start", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const path = Path.join(directory, "secrets.key")
      const sealed = yield* (yield* cipherWith({ path })).seal(secret, 1, value)
      assert.strictEqual(Files.statSync(path).mode & 0o777, 0o600)
      assert.deepStrictEqual(Files.readdirSync(directory), ["secrets.key"])
      const again = yield* cipherWith({ path }, [sealedOnce])
      assert.strictEqual(Redacted.value(yield* again.open(secret, 1, sealed)), Redacted.value(value))
      const elsewhere = yield* cipherWith({ path: Path.join(directory, "another.key") })
      assert.notStrictEqual(elsewhere.currentKey, again.currentKey)
    })
  )

  it.effect("a file that another process makes meanwhile is the one that counts", () =>
    Effect.gen(function* () {
      const path = Path.join(yield* temporaryDirectory, "secrets.key")
      const meanwhile = Layer.mock(SecretStore)({
        closedByOtherKeys: () =>
          Effect.as(
            Effect.sync(() => put(path, `${keyOne}\n`)),
            []
          )
      })
      const cipher = yield* Effect.service(SecretCipher).pipe(
        Effect.provide(Layer.provide(layer({ path }), meanwhile))
      )
      assert.strictEqual(cipher.currentKey, (yield* withKey(keyOne)).currentKey)
      assert.strictEqual(Files.readFileSync(path, "utf8"), `${keyOne}\n`)
    })
  )

  it.effect("a file that is missing though secrets are stored is a lost one: refused, and none is made", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const path = Path.join(directory, "secrets.key")
      const refusal = yield* Effect.flip(cipherWith({ path }, [sealedOnce]))
      assert.deepInclude({ ...refusal }, { _tag: "SecretKeysRefused", from: path })
      assert.include(refusal.message, "put it back")
      assert.deepStrictEqual(Files.readdirSync(directory), [])
    })
  )

  it.effect.each(refusedFiles)(
    "FC-21 a file %s is refused and left as it was, and no key is told",
    ([, arrange, says]) =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const path = Path.join(directory, "secrets.key")
        arrange(path)
        const before = Files.readdirSync(directory)
        const refusal = yield* Effect.flip(cipherWith({ path }))
        assert.strictEqual(refusal._tag, "SecretKeysRefused")
        assert.include(refusal.message, says)
        assert.notInclude(refusal.message + JSON.stringify(refusal), keyOne.slice(0, 12))
        assert.deepStrictEqual(Files.readdirSync(directory), before)
      })
  )

  it.effect("a file of another user is refused", () =>
    Effect.gen(function* () {
      const path = Path.join(yield* temporaryDirectory, "secrets.key")
      put(path, `${keyOne}\n`)
      if (process.geteuid?.() === 0) Files.chownSync(path, 12_345, 12_345)
      const built = yield* Effect.exit(cipherWith({ path }))
      assert.strictEqual(built._tag, process.geteuid?.() === 0 ? "Failure" : "Success")
    })
  )

  it.effect("of several keys the first closes, and each opens what it has closed", () =>
    Effect.gen(function* () {
      const path = Path.join(yield* temporaryDirectory, "secrets.key")
      const sealed = yield* (yield* withKey(keyOne)).seal(secret, 1, value)
      put(path, `# current\n${keyTwo}\n\n# former\n  ${keyOne}  \n`)
      const ring = yield* cipherWith({ path }, [sealedOnce])
      assert.strictEqual(ring.currentKey, (yield* withKey(keyTwo)).currentKey)
      assert.strictEqual(Redacted.value(yield* ring.open(secret, 1, sealed)), Redacted.value(value))
      const anew = yield* ring.seal(secret, 1, value)
      assert.strictEqual(anew.key, ring.currentKey)
      assert.strictEqual(
        (yield* Effect.flip((yield* withKey(keyOne)).open(secret, 1, anew)))._tag,
        "SecretUnreadable"
      )
    })
  )

  it.effect("a key from the environment takes the place of the file, which is not looked at", () =>
    Effect.gen(function* () {
      const path = Path.join(yield* temporaryDirectory, "absent", "secrets.key")
      const cipher = yield* cipherWith({ path, environmentKey: Redacted.make(keyOne) }, [sealedOnce])
      assert.strictEqual(cipher.currentKey, (yield* withKey(keyOne)).currentKey)
      assert.notInclude(keyOne, cipher.currentKey)
      assert.isFalse(Files.existsSync(path))
      const refusal = yield* Effect.flip(withKey("canary-no-key"))
      assert.include(refusal.message, "HOLDFAST_SECRET_KEY")
      assert.notInclude(refusal.message, "canary")
    })
  )
})
