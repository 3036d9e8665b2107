/** Port of sealed secrets, their versions and their bindings. It never sees a value in the clear. Source: RL section 2.1. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type EnvironmentId, SecretId, type TenantId } from "../Identity.ts"
import type { OutsideTransaction, StorageFailure } from "../persistence/PluginDb.ts"
import type { SealedSecret, Secret } from "./Secret.ts"

/** The tenant has a secret of that name: rotate it to change its value. */
export class SecretExists extends Schema.TaggedError<SecretExists>()("SecretExists", {
  name: Schema.String
}) {
  readonly code = "secret_exists"
  override get message(): string {
    return `the tenant has a secret named ${this.name}: rotate it to give it another value`
  }
}

/** The secret is not there, is another tenant's, has no such version, or is not bound where it is used. */
export class SecretAbsent extends Schema.TaggedError<SecretAbsent>()("SecretAbsent", {
  secret: SecretId,
  why: Schema.Literals(["unknown", "version", "unbound"])
}) {
  readonly code = "secret_absent"
  override get message(): string {
    return this.why === "unbound"
      ? `secret ${this.secret} is not bound to this environment at that place: bind it, then ask again`
      : `secret ${this.secret} ${this.why === "version" ? "has no such version" : "is unknown to the tenant"}: look at its id with secret list`
  }
}

/** The tenant has `tenantSecretsMax` secrets, or the secret `secretVersionsMax` versions. */
export class SecretsFull extends Schema.TaggedError<SecretsFull>()("SecretsFull", {
  table: Schema.Literals(["secrets", "secret_versions", "secret_bindings"])
}) {
  readonly code = "secrets_full"
  override get message(): string {
    return `there is no more room for ${this.table.replace("_", " ")} of this tenant: remove one first`
  }
}

export interface SealedVersion {
  readonly secret: SecretId
  readonly version: number
  readonly sealed: SealedSecret
}

export class SecretStore extends Context.Service<
  SecretStore,
  {
    /** Stores version 1 under an id that the caller has drawn, since the box is bound to it. */
    readonly create: (secret: {
      readonly id: SecretId
      readonly tenant: TenantId
      readonly name: string
      readonly sealed: SealedSecret
    }) => Effect.Effect<Secret, SecretExists | SecretsFull | StorageFailure>
    /** Adds the version after the newest, if the newest is still the one before it; none where it is not. */
    readonly addVersion: (
      tenant: TenantId,
      version: SealedVersion
    ) => Effect.Effect<Option.Option<Secret>, SecretsFull | StorageFailure>
    readonly byId: (
      tenant: TenantId,
      secret: SecretId
    ) => Effect.Effect<Option.Option<Secret>, StorageFailure>
    readonly list: (tenant: TenantId) => Effect.Effect<ReadonlyArray<Secret>, StorageFailure>
    /** The sealed value of that version, or of the newest. Source: RL-SECRET-04. */
    readonly version: (
      tenant: TenantId,
      secret: SecretId,
      version: number | "latest"
    ) => Effect.Effect<Option.Option<SealedVersion>, StorageFailure>
    /** Binds the secret to an environment's config path; it takes the place of a former binding there. */
    readonly bind: (binding: {
      readonly tenant: TenantId
      readonly secret: SecretId
      readonly environment: EnvironmentId
      readonly configPath: string
    }) => Effect.Effect<void, SecretAbsent | SecretsFull | StorageFailure>
    /** The secret that is bound to the environment at that path for this tenant. */
    readonly bound: (
      tenant: TenantId,
      environment: EnvironmentId,
      configPath: string
    ) => Effect.Effect<Option.Option<SecretId>, StorageFailure>
    /**
     * Versions that another key than this one closed, ordered by secret and version, at most `secretRekeyPageMax`; only
     * those behind `after` where it is given, so that a box that cannot be opened does not hold up the others.
     */
    readonly closedByOtherKeys: (
      key: string,
      after?: { readonly secret: SecretId; readonly version: number }
    ) => Effect.Effect<ReadonlyArray<SealedVersion>, StorageFailure>
    /** Puts a box of the new key in the place of the given one; answers whether it was still there. */
    readonly reseal: (former: SealedVersion, sealed: SealedSecret) => Effect.Effect<boolean, StorageFailure>
  }
>()("holdfast/domain/secrets/SecretStore") {
  declare readonly [OutsideTransaction]: true
}
