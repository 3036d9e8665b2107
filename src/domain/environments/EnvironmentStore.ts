/** Port of environments and of their bindings to tenants. Source: RL section 3.7. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { EnvironmentId, type TenantId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import type { OutsideTransaction, StorageFailure } from "../persistence/PluginDb.ts"
import type { Environment, EnvironmentDriverName } from "./Environment.ts"

/** There is one `local` environment, and names are unique: use or rename the one that is there. */
export class EnvironmentExists extends Schema.TaggedError<EnvironmentExists>()("EnvironmentExists", {
  what: Schema.Literals(["name", "local"])
}) {
  readonly code = "environment_exists"
  override get message(): string {
    return this.what === "local"
      ? "there is a local environment already, and one is all that there can be: use that one"
      : "an environment of that name exists: choose another name"
  }
}

/** The installation has `environmentsMax` environments: delete one first. Source: FC-15. */
export class EnvironmentsFull extends Schema.TaggedError<EnvironmentsFull>()("EnvironmentsFull", {}) {
  readonly code = "environments_full"
  override get message(): string {
    return "there are as many environments as there may be: delete one first"
  }
}

export class EnvironmentAbsent extends Schema.TaggedError<EnvironmentAbsent>()("EnvironmentAbsent", {
  environment: EnvironmentId
}) {
  readonly code = "environment_absent"
  override get message(): string {
    return `there is no environment ${this.environment}: look at its id with env list`
  }
}

export class EnvironmentStore extends Context.Service<
  EnvironmentStore,
  {
    readonly create: (environment: {
      readonly name: string
      readonly description?: string
      readonly driver: EnvironmentDriverName
      readonly config: JsonObject
    }) => Effect.Effect<Environment, EnvironmentExists | EnvironmentsFull | StorageFailure>
    readonly getById: (
      environment: EnvironmentId
    ) => Effect.Effect<Option.Option<Environment>, StorageFailure>
    /** By name, at most `environmentsMax`. */
    readonly list: Effect.Effect<ReadonlyArray<Environment>, StorageFailure>
    /** What is not given stays. */
    readonly update: (
      environment: EnvironmentId,
      change: {
        readonly name?: string
        readonly driver?: EnvironmentDriverName
        readonly config?: JsonObject
        readonly status?: Environment["status"]
      }
    ) => Effect.Effect<Environment, EnvironmentAbsent | EnvironmentExists | StorageFailure>
    /**
     * Deletes it whatever its leases: they stay and name no environment then. Its bindings of secrets and of managed
     * resources go with it. Answers whether it was there. Source: RL-ORPHAN-11.
     */
    readonly remove: (environment: EnvironmentId) => Effect.Effect<boolean, StorageFailure>
    /** Deletes it unless a reusable lease of it is unfinished; none while one blocks. Source: RL-FENCE-04. */
    readonly removeIfDeletable: (
      environment: EnvironmentId
    ) => Effect.Effect<Option.Option<Environment>, StorageFailure>
    /** Ties the environment to a tenant; it takes the place of a former binding of that resource key. */
    readonly bindManagedResource: (binding: {
      readonly tenant: TenantId
      readonly environment: EnvironmentId
      readonly resourceKey: string
      readonly stockVersion: number
      readonly stockHash: string
    }) => Effect.Effect<void, EnvironmentAbsent | EnvironmentsFull | StorageFailure>
  }
>()("holdfast/domain/environments/EnvironmentStore") {
  declare readonly [OutsideTransaction]: true
}
