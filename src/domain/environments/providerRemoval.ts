/**
 * Taking a provider plugin out. Nobody else can end what is pinned to it, so it stays while a lease or an intent of it is
 * not over. Source: RL 6.1 item 4.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ProviderPluginId } from "../Identity.ts"
import { ProviderPlugins } from "../providers/ProviderPlugins.ts"
import { LeaseCensus } from "./LeaseCensus.ts"

/** There is no such plugin. */
export class ProviderNotFound extends Schema.TaggedError<ProviderNotFound>()("ProviderNotFound", {
  provider: ProviderPluginId
}) {
  readonly code = "provider_not_found"
  override get message(): string {
    return `there is no provider plugin ${this.provider}: see provider list`
  }
}

/** Leases or intents that only this plugin can end are not over. */
export class ProviderInUse extends Schema.TaggedError<ProviderInUse>()("ProviderInUse", {
  provider: ProviderPluginId,
  leases: Schema.Int
}) {
  readonly code = "provider_in_use"
  override get message(): string {
    return `${this.leases} leases of provider plugin ${this.provider} are not over, and nobody else can end them: destroy them first`
  }
}

/** Takes the plugin out; refused with `ProviderNotFound` and `ProviderInUse`. */
export const removeProvider = Effect.fn("environments.removeProvider")(function* (
  provider: ProviderPluginId
) {
  const plugins = yield* ProviderPlugins
  if (Option.isNone(yield* plugins.byId(provider))) return yield* new ProviderNotFound({ provider })
  const requireFree = Effect.flatMap(
    LeaseCensus.use((census) => census.owedBy(provider)),
    (leases) => (leases === 0 ? Effect.void : Effect.fail(new ProviderInUse({ provider, leases })))
  )
  yield* requireFree
  // From here on no new lease can be pinned to it; one that came before is seen by the second look.
  yield* plugins.setStatus(provider, "installed")
  yield* Effect.tapError(requireFree, () => plugins.setStatus(provider, "ready"))
  yield* plugins.remove(provider)
})
