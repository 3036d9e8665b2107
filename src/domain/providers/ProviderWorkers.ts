/**
 * Port of the worker processes of provider plugins. A daemon may have none wired, which is not the same as a worker that
 * does not run. Source: RL section 3.3.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type { ProviderPluginId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"

/**
 * The worker answered with an error of JSON-RPC. `data` is the provider's and is believed only where a rule says so;
 * neither it nor the message may reach a log, a span, a row or an answer. Source: RL-CREATE-07, FC-21.
 */
export class ProviderRpcError extends Data.TaggedError("ProviderRpcError")<{
  readonly code: number
  readonly message: string
  readonly data?: unknown
}> {}

/** Why a call has no answer of its worker's. What was asked for may have been done all the same. */
export class ProviderCallFailed extends Data.TaggedError("ProviderCallFailed")<{
  readonly method: string
  readonly why: "not_running" | "busy" | "timeout" | "crashed" | "oversized" | "malformed"
}> {
  override get message(): string {
    return `the provider's worker gave no answer to ${this.method} (${this.why})`
  }
}

/** What a worker says while it executes a command. */
export type LogSink = (chunk: { readonly stream: "stdout" | "stderr"; readonly text: string }) => void

export interface ProviderWorkerManager {
  /** Whether the worker could be called now; may flip between two reads. */
  readonly isRunning: (plugin: ProviderPluginId) => boolean
  /** What the living worker says that it can; absent where a manager has no such discovery. */
  readonly getWorker?: (
    plugin: ProviderPluginId
  ) => { readonly supportedMethods: ReadonlyArray<string> } | undefined
  /**
   * Sends one request. Without a budget the worker's own default holds. Fails with `ProviderRpcError`,
   * `ProviderCallFailed`, or with whatever error a consumer's own manager has: the very object reaches the caller.
   */
  readonly call: (
    plugin: ProviderPluginId,
    method: string,
    params: JsonObject,
    budgetMillis?: number,
    logSink?: LogSink
  ) => Effect.Effect<unknown, Error>
}

/** A manager without discovery says nothing about a method; a worker that is not there has none. Source: RL-SWEEP-08. */
export const isListed = (workers: ProviderWorkerManager, plugin: ProviderPluginId, method: string): boolean =>
  workers.getWorker === undefined || workers.getWorker(plugin)?.supportedMethods.includes(method) === true

/** The manager of this process, or null where none is wired. */
export class ProviderWorkers extends Context.Service<ProviderWorkers, ProviderWorkerManager | null>()(
  "holdfast/domain/providers/ProviderWorkers"
) {
  declare readonly [OutsideTransaction]: true
}
