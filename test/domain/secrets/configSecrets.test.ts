import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Tracer from "effect/Tracer"
import * as Files from "node:fs"
import * as Path from "node:path"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { leaseFingerprint } from "../../../src/domain/environments/fingerprint.ts"
import type { SecretId } from "../../../src/domain/Identity.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import {
  resolveConfig,
  resolveEnvironmentDriverConfigForRuntime,
  resolveRecordedConfig
} from "../../../src/domain/secrets/configSecrets.ts"
import { rotateSecret } from "../../../src/domain/secrets/vault.ts"
import { Digests } from "../../../src/domain/Digests.ts"
import { OrphanSpool } from "../../../src/domain/runLeases/OrphanSpool.ts"
import { scrubMetadata } from "../../../src/domain/secrets/scrubbing.ts"
import { layer as digests } from "../../../src/infra/Digests.ts"
import { layer as spoolIn } from "../../../src/infra/filesystem/OrphanSpool.ts"
import { orphanOf } from "../../infra/filesystem/orphanRecords.ts"
import { temporaryDirectory } from "../registry/fixture.ts"
import { bound, environmentWith, otherTenant, secretNamed, tenant, vaultOnClone } from "./fixture.ts"

const schema = { properties: { apiKey: { type: "string", format: "secret-ref" } } }
const ref = (secretId: SecretId, version: number | "latest" = "latest") => ({
  type: "secret_ref",
  secretId,
  version
})

/** A secret that is bound to a fresh environment at `apiKey`, and the environment. */
const boundSecret = (
  name: string,
  value: string,
  config: (secret: SecretId) => JsonObject,
  path = "apiKey"
) =>
  Effect.gen(function* () {
    const secret = yield* secretNamed(name, value)
    const environment = yield* environmentWith(config(secret))
    yield* bound(environment.id, path, secret)
    return { secret, environment }
  })

const rotate = (secret: SecretId, value: string) =>
  rotateSecret({ tenant, secret, value: Redacted.make(value) })

describe("secrets/configSecrets", () => {
  it.layer(Layer.merge(vaultOnClone, digests))((it) => {
    it.effect(
      "RL-SECRET-01 a secret id of a marked property becomes its value; the stored config keeps the id",
      () =>
        Effect.gen(function* () {
          const { environment, secret } = yield* boundSecret("by id", "canary-by-id", (apiKey) => ({
            provider: "secure-plugin",
            apiKey
          }))
          const { config, id } = environment
          const resolved = yield* resolveConfig({ tenant, environment: id, config, schema })
          assert.deepStrictEqual(Redacted.value(resolved.config), {
            provider: "secure-plugin",
            apiKey: "canary-by-id"
          })
          assert.deepStrictEqual(resolved.uses, [{ path: "apiKey", secret, version: 1 }])
          assert.strictEqual(environment.config["apiKey"], secret)
        })
    )

    it.effect(
      "RL-SECRET-03 a reference object resolves to driver and config, the provider's key still in it",
      () =>
        Effect.gen(function* () {
          const { environment } = yield* boundSecret("by object", "canary-object", (secret) => ({
            provider: "secure-plugin",
            template: "base",
            apiKey: ref(secret)
          }))
          const resolved = yield* resolveEnvironmentDriverConfigForRuntime({ tenant, environment })
          assert.strictEqual(resolved.driver, "sandbox")
          assert.deepStrictEqual(Redacted.value(resolved.config), {
            provider: "secure-plugin",
            template: "base",
            apiKey: "canary-object"
          })
        })
    )

    it.effect(
      "RL-SECRET-05 an SSH key is opened from its reference into privateKey, which is stored empty",
      () =>
        Effect.gen(function* () {
          const stored = (secret: SecretId) => ({
            host: "host.example",
            privateKey: null,
            privateKeySecretRef: ref(secret)
          })
          const made = yield* boundSecret("ssh key", "canary-ssh-key", stored, "privateKeySecretRef")
          const environment = { ...made.environment, driver: "ssh" as const }
          const resolved = yield* resolveEnvironmentDriverConfigForRuntime({ tenant, environment })
          assert.deepStrictEqual(Redacted.value(resolved.config), {
            host: "host.example",
            privateKey: "canary-ssh-key"
          })
          assert.strictEqual(environment.config["privateKey"], null)
        })
    )

    it.effect("RL-SECRET-03 a plugin's schema speaks about its driverConfig", () =>
      Effect.gen(function* () {
        const stored = (apiKey: SecretId) => ({ pluginKey: "acme", driverKey: "d", driverConfig: { apiKey } })
        const made = yield* boundSecret("plugin key", "canary-plugin", stored, "driverConfig.apiKey")
        const environment = { ...made.environment, driver: "plugin" as const }
        const resolved = yield* resolveEnvironmentDriverConfigForRuntime({ tenant, environment, schema })
        assert.deepStrictEqual(Redacted.value(resolved.config)["driverConfig"], { apiKey: "canary-plugin" })
      })
    )

    it.effect("a call for another tenant, or from another environment, gets nothing", () =>
      Effect.gen(function* () {
        const { environment } = yield* boundSecret("scoped", "canary-scoped", (apiKey) => ({ apiKey }))
        const { config } = environment
        const other = yield* environmentWith(config)
        const foreign = resolveConfig({ tenant: otherTenant, environment: environment.id, config, schema })
        const elsewhere = resolveConfig({ tenant, environment: other.id, config, schema })
        for (const asked of [foreign, elsewhere]) {
          assert.deepInclude({ ...(yield* Effect.flip(asked)) }, { _tag: "SecretAbsent", why: "unbound" })
        }
      })
    )

    it.effect("a value in the clear where a secret belongs is refused by the name of its field", () =>
      Effect.gen(function* () {
        const { id } = yield* environmentWith({})
        const config = { apiKey: "canary-in-the-clear" }
        const refusal = yield* Effect.flip(resolveConfig({ tenant, environment: id, config, schema }))
        assert.deepInclude({ ...refusal }, { _tag: "SecretRefInvalid", path: "apiKey" })
        assert.notInclude(refusal.message, "canary")
        assert.strictEqual(
          yield* Effect.map(
            resolveRecordedConfig({ tenant, config, schema }),
            (found) => Redacted.value(found.config)["apiKey"]
          ),
          "canary-in-the-clear"
        )
      })
    )

    it.effect(
      "RL-SECRET-04 environment and binding removed before the row was recorded: the recorded secret's value",
      () =>
        Effect.gen(function* () {
          const { environment, secret } = yield* boundSecret("gone", "canary-gone", (apiKey) => ({ apiKey }))
          yield* EnvironmentStore.use((store) => store.remove(environment.id))
          const recorded = { image: "base", apiKey: secret }
          const resolved = yield* resolveRecordedConfig({ tenant, config: recorded, schema })
          assert.deepStrictEqual(Redacted.value(resolved.config), { image: "base", apiKey: "canary-gone" })
          const bound = resolveConfig({ tenant, environment: environment.id, config: recorded, schema })
          assert.deepInclude({ ...(yield* Effect.flip(bound)) }, { why: "unbound" })
        })
    )

    it.effect(
      "RL-SECRET-04 environment re-bound to a new secret at the same path; the old one was never bound: the old secret's value",
      () =>
        Effect.gen(function* () {
          const old = yield* secretNamed("never bound", "canary-never-bound")
          yield* boundSecret("bound in its place", "canary-in-its-place", (apiKey) => ({ apiKey }))
          const resolved = yield* resolveRecordedConfig({ tenant, config: { apiKey: old }, schema })
          assert.deepStrictEqual(Redacted.value(resolved.config), { apiKey: "canary-never-bound" })
        })
    )

    it.effect(
      "RL-SECRET-04 the recorded secret is opened inside its tenant alone, in its newest version",
      () =>
        Effect.gen(function* () {
          const secret = yield* secretNamed("rotated since", "canary-since-1")
          yield* rotate(secret, "canary-since-2")
          const config = { apiKey: ref(secret, 1) }
          const resolved = yield* resolveRecordedConfig({ tenant, config })
          assert.deepStrictEqual(Redacted.value(resolved.config), { apiKey: "canary-since-2" })
          const foreign = yield* Effect.flip(resolveRecordedConfig({ tenant: otherTenant, config }))
          assert.deepInclude({ ...foreign }, { _tag: "SecretAbsent", why: "unknown" })
        })
    )

    it.effect("RL-SECRET-06 FC-20 a rotation changes the fingerprint by the version; it holds no value", () =>
      Effect.gen(function* () {
        const { sha256 } = yield* Digests
        const { environment, secret } = yield* boundSecret("fingerprinted", "canary-print-1", (apiKey) => ({
          apiKey
        }))
        const { config, id } = environment
        const texts: Array<string> = []
        const digest = (text: string) => (texts.push(text), sha256(text))
        const fingerprint = Effect.map(
          resolveConfig({ tenant, environment: id, config, schema }),
          ({ uses }) =>
            leaseFingerprint(digest, { provider: "secure-plugin", adapterType: null, config }, uses)
              .fingerprint
        )
        const before = yield* fingerprint
        assert.strictEqual(yield* fingerprint, before)
        yield* rotate(secret, "canary-print-2")
        assert.notStrictEqual(yield* fingerprint, before)
        // The same value again is another version all the same.
        yield* rotate(secret, "canary-print-2")
        assert.lengthOf(new Set([before, yield* fingerprint, ...texts.map(sha256)]), 5)
        for (const text of texts) {
          assert.include(text, secret)
          assert.notInclude(text, "canary")
        }
      })
    )

    it.effect(
      "FC-21 a resolved config tells no value to who prints it, and no log or span of its making has one",
      () =>
        Effect.gen(function* () {
          const said: Array<string> = []
          const listening = Layer.mergeAll(
            Logger.layer([Logger.make(({ message }) => void said.push(JSON.stringify(message)))]),
            Layer.succeed(
              Tracer.Tracer,
              Tracer.make({
                span: (options) => {
                  said.push(options.name)
                  const span = new Tracer.NativeSpan(options)
                  const attribute = span.attribute.bind(span)
                  span.attribute = (key, value) => (
                    said.push(`${key}=${JSON.stringify(value)}`),
                    attribute(key, value)
                  )
                  return span
                }
              })
            )
          )
          const { environment } = yield* boundSecret("printed", "canary-printed", (apiKey) => ({
            apiKey
          })).pipe(Effect.provide(listening))
          const { config, id } = environment
          const resolved = yield* resolveConfig({ tenant, environment: id, config, schema }).pipe(
            Effect.tap((found) => Effect.logInfo("resolved", found)),
            Effect.withSpan("call", { attributes: { environment: id } }),
            Effect.provide(listening)
          )
          const printed = [JSON.stringify(resolved), String(resolved.config), ...said].join("\n")
          assert.include(printed, "secrets.resolveConfig")
          assert.notInclude(printed, "canary")
        })
    )

    it.effect(
      "FC-21 RL-SECRET-02 what is recorded of a call, in a row or in the spool, has no value in it",
      () =>
        Effect.gen(function* () {
          const { environment } = yield* boundSecret("recorded", "canary-recorded", (apiKey) => ({ apiKey }))
          const { config, id } = environment
          const { values } = yield* resolveConfig({ tenant, environment: id, config, schema })
          const echoed = { apiKey: "canary-recorded", url: "https://canary-recorded@host/", sandboxId: "s" }
          const metadata = scrubMetadata(echoed, { config, schema, values })
          const folder = Path.join(yield* temporaryDirectory, "orphans")
          const spool = yield* Effect.provide(Effect.service(OrphanSpool), spoolIn({ directory: folder }))
          assert.isTrue(yield* spool.append(orphanOf(1, { metadata, sentConfig: config })))
          const [name = ""] = Files.readdirSync(folder)
          const text = Files.readFileSync(Path.join(folder, name), "utf8")
          assert.include(text, String(config["apiKey"]))
          assert.notInclude(text, "canary")
        })
    )
  })
})
