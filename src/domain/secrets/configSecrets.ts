/**
 * The secrets of an environment's config: opened for one call, told by id and version for a fingerprint, and taken out of
 * what comes back by `scrubMetadata`. A config with values is redacted until the call is made, and is never stored.
 * Source: RL-SECRET-01 to -06, RL 6.1 item 18.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { EnvironmentId, SecretId, TenantId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import { pathText, type SecretPlace, secretPlacesOf, withTexts } from "./secretPlaces.ts"
import { type OpenedSecret, openBound, openRecorded } from "./vault.ts"

/** A place that is a secret's holds something else. What it holds is not told. */
export class SecretRefInvalid extends Schema.TaggedError<SecretRefInvalid>()("SecretRefInvalid", {
  /** Place in the config. */
  path: Schema.String
}) {
  readonly code = "secret_ref_invalid"
  override get message(): string {
    return `the config's field "${this.path}" must name a secret, by its id or as a secret_ref: store the value as a secret, bind it, and name that`
  }
}

/** Which version of which secret stands where; all of a secret that a fingerprint may know. Source: FC-20. */
export interface SecretUse {
  readonly path: string
  readonly secret: SecretId
  readonly version: number
}

export interface ResolvedConfig {
  /** Values in the references' places; everything else as it was. To be opened where the call is made. */
  readonly config: Redacted.Redacted<JsonObject>
  readonly uses: ReadonlyArray<SecretUse>
  /** The values alone, for scrubbing. */
  readonly values: ReadonlyArray<Redacted.Redacted>
}

const resolvedConfig = (
  config: JsonObject,
  places: ReadonlyArray<SecretPlace>,
  opened: ReadonlyArray<OpenedSecret>
): ResolvedConfig => {
  const filled = places.map(({ path }, at) => ({ path, opened: opened[at]! }))
  const texts = filled.map(({ opened: { value }, path }) => ({ path, text: Redacted.value(value) }))
  return {
    config: Redacted.make(withTexts(config, texts)),
    uses: filled.map(({ opened: { secret, version }, path }) => ({ path: pathText(path), secret, version })),
    values: opened.map(({ value }) => value)
  }
}

/**
 * Opens the secrets of a living environment's config for one call. Each must be bound to the environment at its place.
 * A value in the clear where a secret belongs is refused. Source: RL-SECRET-01, RL-SECRET-03.
 */
export const resolveConfig = Effect.fn("secrets.resolveConfig")(function* (asked: {
  readonly tenant: TenantId
  readonly environment: EnvironmentId
  readonly config: JsonObject
  readonly schema?: JsonObject | undefined
}) {
  const { config, environment, schema, tenant } = asked
  const { invalid, places } = secretPlacesOf(config, schema)
  if (invalid[0] !== undefined) return yield* new SecretRefInvalid({ path: pathText(invalid[0]) })
  const opened = yield* Effect.forEach(places, ({ path, ref }) =>
    openBound({ tenant, environment, configPath: pathText(path), ref })
  )
  return resolvedConfig(config, places, opened)
})

/**
 * Opens the secrets of a config that a lease recorded, for its teardown alone: inside the tenant, the newest version,
 * without a binding. What is no reference there goes as it was recorded, since it once made the resource. Source:
 * RL-SECRET-04.
 */
export const resolveRecordedConfig = Effect.fn("secrets.resolveRecordedConfig")(function* (asked: {
  readonly tenant: TenantId
  readonly config: JsonObject
  readonly schema?: JsonObject | undefined
}) {
  const { config, schema, tenant } = asked
  const { places } = secretPlacesOf(config, schema)
  const opened = yield* Effect.forEach(places, ({ ref }) => openRecorded({ tenant, ref }))
  return resolvedConfig(config, places, opened)
})

/** What of an environment its config's secrets are looked up by. */
export interface ConfiguredEnvironment<Driver extends string> {
  readonly id: EnvironmentId
  readonly driver: Driver
  readonly config: JsonObject
}

/** The schema of a provider speaks about the whole config of a sandbox, and about `driverConfig` of a plugin. */
const schemaFor = (driver: string, schema: JsonObject | undefined): JsonObject | undefined =>
  driver === "plugin" && schema !== undefined
    ? { $defs: schema["$defs"], definitions: schema["definitions"], properties: { driverConfig: schema } }
    : schema

/** An SSH environment keeps its key as a reference beside an empty `privateKey`. Source: RL-SECRET-05. */
const withPrivateKey = (config: JsonObject): JsonObject => {
  const { privateKeySecretRef, ...rest } = config
  return typeof privateKeySecretRef === "string" ? { ...rest, privateKey: privateKeySecretRef } : config
}

/**
 * Driver and config of an environment with its secrets opened, as its driver carries it out: the key `provider` is still
 * there, and an SSH key stands in `privateKey`. Source: RL-SECRET-03, RL-SECRET-05.
 */
export const resolveEnvironmentDriverConfigForRuntime = Effect.fn("secrets.resolveEnvironmentDriverConfig")(
  function* <Driver extends string>(asked: {
    readonly tenant: TenantId
    readonly environment: ConfiguredEnvironment<Driver>
    /** `configSchema` of the provider's driver entry, where it has one. */
    readonly schema?: JsonObject | undefined
  }) {
    const { environment, schema, tenant } = asked
    const { config, uses, values } = yield* resolveConfig({
      tenant,
      environment: environment.id,
      config: environment.config,
      schema: schemaFor(environment.driver, schema)
    })
    const made = environment.driver === "ssh" ? Redacted.make(withPrivateKey(Redacted.value(config))) : config
    return { driver: environment.driver, config: made, uses, values }
  }
)
