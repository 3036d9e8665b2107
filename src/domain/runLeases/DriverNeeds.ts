/**
 * What the drivers of providers need, all of it: taken when a runtime is built, and given to every call. Nothing else of
 * the builder's surroundings comes with it, so a caller's logger, clock and spans stay his own.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Digests } from "../Digests.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../environments/EnvironmentStore.ts"
import { Identifiers } from "../Identifiers.ts"
import { Processes } from "../Processes.ts"
import { BuiltInProviders } from "../providers/BuiltInProviders.ts"
import { ProviderPlugins } from "../providers/ProviderPlugins.ts"
import { ProviderWorkers } from "../providers/ProviderWorkers.ts"
import { SecretCipher } from "../secrets/Secret.ts"
import { SecretStore } from "../secrets/SecretStore.ts"
import { WorkStore } from "../work/WorkStore.ts"
import { HarnessBackups } from "./HarnessBackups.ts"
import { LostCreations } from "./LostCreations.ts"
import { OrphanBuffer } from "./OrphanBuffer.ts"
import { OrphanSpool } from "./OrphanSpool.ts"
import { RuntimeSettings } from "./RuntimeSettings.ts"
import { TraceParents } from "./TraceParents.ts"

const services = [
  BuiltInProviders,
  Digests,
  EnvironmentLeaseStore,
  EnvironmentStore,
  HarnessBackups,
  Identifiers,
  LostCreations,
  OrphanBuffer,
  OrphanSpool,
  Processes,
  ProviderPlugins,
  ProviderWorkers,
  SecretCipher,
  SecretStore,
  TraceParents,
  WorkStore
] as const

export type DriverNeeds = (typeof services)[number]["Identifier"]

/** The needs as they are where this is built, and the settings of that place. */
export const driverNeeds: Effect.Effect<Context.Context<DriverNeeds>, never, DriverNeeds> = Effect.gen(
  function* () {
    const settings = yield* RuntimeSettings
    const context = yield* Effect.context<DriverNeeds>()
    return Context.pick(...services)(context).pipe(Context.add(RuntimeSettings, settings))
  }
)
