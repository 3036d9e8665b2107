/**
 * Adapter of SecretCipher: AES-256-GCM by node:crypto, under a ring of keys. The ring is one private file of the daemon's
 * own, a key of 64 hex digits a line, the first of which closes new boxes and all of which open old ones:
 *
 *     # a line that begins so is a remark
 *     9f2c…                    current: put a new key here, restart, and let the old boxes be closed anew
 *     41d0…                    former: may go once `closedByOtherKeys` answers nothing
 *
 * or one key from the environment in its place. A key is named by its digest, so a box names its key for good and a key
 * may move between file and environment. A missing file is made, with a random key, as long as nothing was ever sealed;
 * afterwards a missing file is a lost one, and refused. Nothing of a key or of a value is in an error. Source: FC-21.
 */
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hash,
  type KeyObject,
  randomBytes
} from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { secretKeyFileBytesMax, secretKeysMax } from "../../domain/Bounds.ts"
import type { StorageFailure } from "../../domain/persistence/PluginDb.ts"
import { SecretCipher, SecretUnreadable } from "../../domain/secrets/Secret.ts"
import { SecretStore } from "../../domain/secrets/SecretStore.ts"
import { createSynced, isMissing, readPrivate } from "./durable.ts"
import { errorName, PrivateFileRefused } from "./privateFiles.ts"

const { O_DIRECTORY, O_RDONLY } = Files.constants

const algorithm = "aes-256-gcm"
const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16
const keyPattern = /^[0-9a-f]{64}$/
const keyNameDigits = 16

/** The keys cannot be used: nothing is sealed or opened without them. `why` is a sentence of ours. */
export class SecretKeysRefused extends Data.TaggedError("SecretKeysRefused")<{
  /** The file, or the variable. */
  readonly from: string
  readonly why: string
}> {
  readonly code = "secret_keys_refused"
  override get message(): string {
    return `${this.from}: ${this.why}`
  }
}

interface NamedKey {
  readonly name: string
  readonly key: KeyObject
}

/** Name and key of 64 hex digits. Throws a sentence without them. */
const namedKey = (digits: string): NamedKey => {
  if (!keyPattern.test(digits)) throw new PrivateFileRefused("a key must be 64 lower-case hex digits")
  const bytes = Buffer.from(digits, "hex")
  return {
    name: hash("sha256", Buffer.concat([Buffer.from("holdfast secret key\n"), bytes])).slice(
      0,
      keyNameDigits
    ),
    key: createSecretKey(bytes)
  }
}

/** The keys of a file's text, the current one first. Throws. */
const keysOf = (text: string): ReadonlyArray<NamedKey> => {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
  if (lines.length === 0) throw new PrivateFileRefused("it has no key: put the former one back")
  if (lines.length > secretKeysMax) throw new PrivateFileRefused(`it has more than ${secretKeysMax} keys`)
  return lines.map(namedKey)
}

/** The file is whole under its name, or not there; one that appeared meanwhile stays. Throws. */
const makeKeyFile = (directory: string, name: string, descriptor: number): void => {
  const path = Path.join(directory, name)
  const temporary = Path.join(directory, `.${name}.${randomBytes(8).toString("hex")}`)
  const text = `# keys of the stored secrets, the current one first; without them no secret can be read\n${randomBytes(keyBytes).toString("hex")}\n`
  try {
    // Driven to its end at once: nothing else runs before the daemon has its keys.
    for (const _ of createSynced(temporary, text, Files));
    Files.linkSync(temporary, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
  } finally {
    Files.rmSync(temporary, { force: true })
  }
  Files.fsyncSync(descriptor)
}

/** Text of the key file, or undefined where there is none. Throws. */
const readKeyFile = (path: string, mayMake: boolean): string | undefined => {
  const [directory, name] = [Path.dirname(path), Path.basename(path)]
  const descriptor = Files.openSync(directory, O_RDONLY | O_DIRECTORY)
  try {
    if (mayMake) makeKeyFile(directory, name, descriptor)
    return readPrivate(descriptor, name, secretKeyFileBytesMax)
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  } finally {
    Files.closeSync(descriptor)
  }
}

const attempt = <A>(from: string, run: () => A): Effect.Effect<A, SecretKeysRefused> =>
  Effect.try({ try: run, catch: (error) => new SecretKeysRefused({ from, why: errorName(error) }) })

const loadKeys = Effect.fnUntraced(function* (options: {
  readonly path: string
  readonly environmentKey?: Redacted.Redacted
}) {
  const given = options.environmentKey
  if (given !== undefined) {
    return yield* attempt("HOLDFAST_SECRET_KEY", () => [namedKey(Redacted.value(given))])
  }
  const found = yield* attempt(options.path, () => readKeyFile(options.path, false))
  if (found !== undefined) return yield* attempt(options.path, () => keysOf(found))
  // No key is called so: whatever was ever sealed is an answer.
  const sealed = yield* (yield* SecretStore).closedByOtherKeys("")
  if (sealed.length > 0) {
    return yield* new SecretKeysRefused({
      from: options.path,
      why: "it is missing, and there are secrets that only its keys open: put it back"
    })
  }
  return yield* attempt(options.path, () => keysOf(readKeyFile(options.path, true) ?? ""))
})

/** What a box is bound to, so that it opens in no other place. */
const boundTo = (secret: string, version: number): Buffer =>
  Buffer.from(`holdfast/secret/1/${secret}/${version}`)

const makeCipher = (keys: ReadonlyArray<NamedKey>): SecretCipher["Service"] => {
  const byName = new Map(keys.map(({ name, key }) => [name, key]))
  const current = keys[0]!
  return {
    currentKey: current.name,
    seal: (secret, version, value) =>
      Effect.sync(() => {
        const nonce = randomBytes(nonceBytes)
        const cipher = createCipheriv(algorithm, current.key, nonce, { authTagLength: tagBytes })
        cipher.setAAD(boundTo(secret, version))
        const text = cipher.update(Redacted.value(value), "utf8")
        const box = Buffer.concat([text, cipher.final(), cipher.getAuthTag()])
        return { key: current.name, nonce: new Uint8Array(nonce), box: new Uint8Array(box) }
      }),
    open: (secret, version, { key: name, nonce, box }) =>
      Effect.try({
        try: () => {
          const key = byName.get(name)
          if (key === undefined) throw new PrivateFileRefused("no key of the ring is called so")
          const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes })
          decipher.setAAD(boundTo(secret, version))
          decipher.setAuthTag(box.subarray(-tagBytes))
          const text = Buffer.concat([decipher.update(box.subarray(0, -tagBytes)), decipher.final()])
          return Redacted.make(text.toString("utf8"))
        },
        catch: () => new SecretUnreadable({ secret, key: name })
      })
  }
}

/** The lock with the keys of the file, or with the one of the environment. */
export const layer = (options: {
  readonly path: string
  readonly environmentKey?: Redacted.Redacted
}): Layer.Layer<SecretCipher, SecretKeysRefused | StorageFailure, SecretStore> =>
  Layer.effect(SecretCipher, Effect.map(loadKeys(options), makeCipher))
