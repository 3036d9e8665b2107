/** The stores of run leases over a handle, with what they stand on; also for processes that a test starts. */
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Digests from "../../../src/infra/Digests.ts"
import * as SecretCipher from "../../../src/infra/filesystem/SecretCipher.ts"
import * as Identifiers from "../../../src/infra/Identifiers.ts"
import * as PostgresEnvironmentLeaseStore from "../../../src/infra/postgres/EnvironmentLeaseStore.ts"
import * as PostgresEnvironmentStore from "../../../src/infra/postgres/EnvironmentStore.ts"
import * as PostgresProviderPlugins from "../../../src/infra/postgres/ProviderPlugins.ts"
import * as PostgresSecretStore from "../../../src/infra/postgres/SecretStore.ts"
import * as PostgresWorkStore from "../../../src/infra/postgres/WorkStore.ts"

/** Every store of run leases over whatever handle is given. */
export const stores = Layer.mergeAll(
  PostgresWorkStore.layer,
  PostgresProviderPlugins.layer,
  PostgresEnvironmentStore.layer,
  PostgresEnvironmentLeaseStore.layer,
  PostgresSecretStore.layer
)

const cipher = Layer.orDie(
  SecretCipher.layer({ path: "/nonexistent", environmentKey: Redacted.make("5a".repeat(32)) })
)

/** Stores, lock, digests and ids over a handle; with another one they are those of a second daemon. */
export const overHandle = Layer.mergeAll(cipher, Digests.layer, Identifiers.layer).pipe(
  Layer.provideMerge(stores)
)
