/**
 * Two tenants and an environment on a real clone, with the vault's lock and store: what the tests of secrets stand on. The
 * key comes from the environment, so that no file is needed.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { type EnvironmentId, type SecretId, TenantId } from "../../../src/domain/Identity.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { bindSecret, createSecret } from "../../../src/domain/secrets/vault.ts"
import * as SecretCipherAdapter from "../../../src/infra/filesystem/SecretCipher.ts"
import { layer as identifiers } from "../../../src/infra/Identifiers.ts"
import * as EnvironmentStoreAdapter from "../../../src/infra/postgres/EnvironmentStore.ts"
import * as SecretStoreAdapter from "../../../src/infra/postgres/SecretStore.ts"
import { Clone, clone } from "../../support/clone.ts"

export const tenant = TenantId.make("00000000-0000-4000-8000-00000000000a")
export const otherTenant = TenantId.make("00000000-0000-4000-8000-00000000000b")

export const firstKey = "1f".repeat(32)
export const secondKey = "2e".repeat(32)

const tenants = Layer.effectDiscard(
  Effect.flatMap(Clone, ({ admin }) =>
    Effect.forEach([tenant, otherTenant], (id) =>
      admin(
        "insert into core.tenants (id, name, issue_prefix) values ($1::uuid, $2::text, right($2::text, 3))",
        [id, id]
      )
    )
  )
)

/** The lock with that key, on whatever store is there. */
export const cipherOf = (key: string) =>
  SecretCipherAdapter.layer({ path: "/nowhere/secrets.key", environmentKey: Redacted.make(key) })

/** A clone of its own with the tenants in it. */
export const vaultOnClone = Layer.mergeAll(cipherOf(firstKey), tenants).pipe(
  Layer.provideMerge(
    Layer.mergeAll(SecretStoreAdapter.layer, EnvironmentStoreAdapter.layer).pipe(Layer.provideMerge(clone()))
  ),
  Layer.merge(identifiers)
)

export const secretNamed = (name: string, value: string, owner: TenantId = tenant) =>
  Effect.map(createSecret({ tenant: owner, name, value: Redacted.make(value) }), ({ id }) => id)

let environments = 0

/** An environment of the driver `sandbox`, whatever its config says. */
export const environmentWith = (config: JsonObject) =>
  EnvironmentStore.use((store) => {
    environments += 1
    return store.create({ name: `environment ${environments}`, driver: "sandbox", config })
  })

export const bound = (environment: EnvironmentId, configPath: string, secret: SecretId) =>
  bindSecret({ tenant, secret, environment, configPath })
