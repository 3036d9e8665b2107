/**
 * Port of what is asked about all leases at once: whether resources at a provider are anybody's, and what only one plugin
 * can end. Source: FC-03, RL 6.1 item 4.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { EnvironmentId, EnvironmentLeaseId, ProviderPluginId, TenantId } from "../Identity.ts"
import type { OutsideTransaction, StorageFailure } from "../persistence/PluginDb.ts"

export class LeaseCensus extends Context.Service<
  LeaseCensus,
  {
    /** Those of the ids that a lease or an intent has, of one moment: an intent becomes its lease in a transaction. */
    readonly known: (
      ids: ReadonlyArray<EnvironmentLeaseId>
    ) => Effect.Effect<ReadonlySet<EnvironmentLeaseId>, StorageFailure>
    /** The tenant of the environment's newest lease. */
    readonly tenantOf: (environment: EnvironmentId) => Effect.Effect<Option.Option<TenantId>, StorageFailure>
    /** Leases that are not over, and intents, that are pinned to the plugin. */
    readonly owedBy: (plugin: ProviderPluginId) => Effect.Effect<number, StorageFailure>
  }
>()("holdfast/domain/environments/LeaseCensus") {
  declare readonly [OutsideTransaction]: true
}
