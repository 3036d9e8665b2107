/**
 * What may be asked of a lease's sandbox now: the evidence of its own plugin, declaration, living worker and recorded
 * config, put before the rules. Source: RL section 4.13.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { effectiveCapabilities, noCapabilities, sandboxEntryOf } from "../environments/capabilities.ts"
import { type EnvironmentLease, pinOf } from "../environments/EnvironmentLease.ts"
import { recordedConfigOf } from "../environments/recordedConfig.ts"
import { ProviderPlugins } from "../providers/ProviderPlugins.ts"
import { ProviderWorkers } from "../providers/ProviderWorkers.ts"

/** One boolean for each key. Only a sandbox of a pinned plugin has any. */
export const resolveCapabilities = Effect.fn("runLeases.resolveCapabilities")(function* (
  lease: EnvironmentLease
) {
  const pin = pinOf(lease)
  const workers = yield* ProviderWorkers
  if (pin === null || workers === null || lease.metadata["driver"] !== "sandbox") return noCapabilities
  const plugin = Option.getOrNull(yield* ProviderPlugins.use((plugins) => plugins.byId(pin)))
  const driverKey = lease.provider ?? ""
  const entry = plugin === null ? undefined : sandboxEntryOf(plugin, driverKey)
  return effectiveCapabilities({
    plugin,
    driverKey,
    supportedMethods: workers.isRunning(pin) ? (workers.getWorker?.(pin)?.supportedMethods ?? null) : null,
    config: recordedConfigOf(lease, entry?.configSchema)
  })
})
