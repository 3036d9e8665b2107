/**
 * Waiting for the worker of a provider plugin. Only an acquisition waits, bound by a deadline and not by a number of
 * looks; it looks once each time and nowhere else. Source: RL-ACQ-07 to RL-ACQ-09.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { ProviderPluginId } from "../Identity.ts"
import { type ProviderWorkerManager, ProviderWorkers } from "../providers/ProviderWorkers.ts"
import { ProviderWorkerOffline, ProviderWorkersUnwired } from "./RunLeaseErrors.ts"
import { RuntimeSettings } from "./RuntimeSettings.ts"

const nanosOfMillis = (millis: number): bigint => BigInt(Math.ceil(millis)) * 1_000_000n

const millisUntil = (deadlineNanos: bigint, nowNanos: bigint): number =>
  Number((deadlineNanos - nowNanos + 999_999n) / 1_000_000n)

/** Waits until it runs; `ProviderWorkerOffline` once the deadline has passed. */
const awaitRunning = Effect.fnUntraced(function* (
  workers: ProviderWorkerManager,
  provider: string,
  plugin: ProviderPluginId
) {
  const { providerWorkerReadyMillis, providerWorkerReadyPollMillis } = yield* RuntimeSettings
  const deadline = (yield* Clock.monotonicTimeNanos) + nanosOfMillis(providerWorkerReadyMillis)
  while (!workers.isRunning(plugin)) {
    const left = millisUntil(deadline, yield* Clock.monotonicTimeNanos)
    if (left <= 0) return yield* new ProviderWorkerOffline({ provider })
    yield* Effect.sleep(Math.min(left, Math.max(1, providerWorkerReadyPollMillis)))
  }
})

/**
 * The manager, once the plugin's worker runs. Refused with `ProviderWorkersUnwired` where this process has no workers at
 * all, and with `ProviderWorkerOffline` when the worker does not run by the deadline.
 */
export const awaitWorker = Effect.fn("runLeases.awaitWorker")(function* (
  provider: string,
  plugin: ProviderPluginId
) {
  const workers = yield* ProviderWorkers
  if (workers === null) return yield* new ProviderWorkersUnwired({ provider })
  yield* awaitRunning(workers, provider, plugin)
  return workers
})
