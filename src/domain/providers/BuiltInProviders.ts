/**
 * Port of the sandbox providers that this version carries itself: `fake`, scripted, and `node`, the guests of this
 * node's registry. Their names are looked up before those of plugins. Source: RL section 3.2.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { EnvironmentId, RunId, TaskId, TenantId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"
import type { LogSink } from "./ProviderWorkers.ts"

/** What a provider answers about the end of one resource. Only a matching one proves anything. */
export interface ProviderReceipt {
  readonly providerLeaseId: string
  readonly state: string
}

export interface BuiltInAcquisition {
  readonly tenant: TenantId
  readonly environment: EnvironmentId
  readonly task: TaskId | null
  readonly run: RunId
  readonly config: JsonObject
  /** The name under which a lost answer is found again. Source: BX-01. */
  readonly intent: { readonly name: string; readonly installation: string; readonly generation: number }
}

export interface ProviderCommand {
  readonly providerLeaseId: string
  readonly config: JsonObject
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly cwd: string | null
  readonly env: { readonly [name: string]: string }
  readonly stdin?: string
  readonly timeoutMillis?: number
  readonly logSink?: LogSink
}

export interface CommandResult {
  readonly exitCode: number | null
  readonly signal: string | null
  readonly timedOut: boolean
  readonly stdout: string
  readonly stderr: string
  readonly metadata?: JsonObject
}

/** A resource that the provider holds under our installation's label. Source: FC-03. */
export interface HeldResource {
  readonly providerLeaseId: string
  readonly intentName: string
}

export interface BuiltInProvider {
  readonly key: string
  readonly acquireLease: (
    asked: BuiltInAcquisition
  ) => Effect.Effect<
    { readonly providerLeaseId: string; readonly expiresAt?: string; readonly metadata?: JsonObject },
    Error
  >
  readonly releaseLease: (asked: { readonly providerLeaseId: string }) => Effect.Effect<unknown, Error>
  /** The one entry of every teardown. An answer that is nothing is a success. */
  readonly destroyLease: (asked: { readonly providerLeaseId: string }) => Effect.Effect<unknown, Error>
  /** A provider that cannot stop has none; read anew for each stop. */
  readonly stopLease?:
    | ((asked: {
        readonly providerLeaseId: string
        readonly cancelActiveWork: boolean
      }) => Effect.Effect<unknown, Error>)
    | undefined
  readonly realizeWorkspace?: (asked: {
    readonly providerLeaseId: string
    readonly localPath: string
    readonly mode: string
  }) => Effect.Effect<{ readonly cwd: string; readonly metadata?: JsonObject }, Error>
  readonly execute?: (asked: ProviderCommand) => Effect.Effect<CommandResult, Error>
  readonly listLeases?: (installation: string) => Effect.Effect<ReadonlyArray<HeldResource>, Error>
}

export class BuiltInProviders extends Context.Service<
  BuiltInProviders,
  { readonly find: (key: string) => BuiltInProvider | undefined }
>()("holdfast/domain/providers/BuiltInProviders") {
  declare readonly [OutsideTransaction]: true
}
