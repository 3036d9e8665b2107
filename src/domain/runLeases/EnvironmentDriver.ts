/**
 * An environment driver: how leases of environments of one kind are carried out. The runtime has a default set of them; a
 * consumer's own list takes its place. The driver that a lease records carries it for its whole life, whatever its
 * environment has become. Source: RL section 3.1, RL-DRIVER-01, RL-DRIVER-06.
 */
import type * as Effect from "effect/Effect"
import type { Environment, RunnerLifecycle } from "../environments/Environment.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import type { KeyedRequest } from "../environments/ProviderIntent.ts"
import type {
  AgentId,
  EnvironmentLeaseId,
  ExecutionWorkspaceId,
  RequestKey,
  RunId,
  TaskId,
  TenantId
} from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import type { CommandResult } from "../providers/BuiltInProviders.ts"
import type { LogSink } from "../providers/ProviderWorkers.ts"

export interface Acquisition {
  readonly tenant: TenantId
  readonly environment: Environment
  /** What this run wants of its environment for itself; it is never stored. Source: RL-REUSE-07, RL-REUSE-08. */
  readonly lifecycle?: RunnerLifecycle
  readonly task: TaskId | null
  readonly run: RunId
  readonly agent?: AgentId
  readonly adapterType?: string
  readonly executionWorkspace: { readonly id: ExecutionWorkspaceId; readonly mode: string } | null
  readonly assertTenantBinding?: boolean
  readonly requestedExpiresAtMillis?: number
  /** The same key again joins the acquisition that it began; with another request it is refused. Source: FC-04. */
  readonly requestKey?: RequestKey
  /** The request under its key, for the intent of whoever asks a provider. */
  readonly request?: KeyedRequest
  /** What the runtime wants to find in the metadata of the row again: a driver merges it in, with the insert. */
  readonly note?: JsonObject
}

/** Whose lease it becomes, and where: what every row of the acquisition says. */
export const leasePlaceOf = ({ environment, executionWorkspace, run, task, tenant }: Acquisition) => ({
  tenant,
  environment: environment.id,
  executionWorkspace: executionWorkspace?.id ?? null,
  task,
  run
})

/** What becomes of the resource when its lease is released. Source: RL-REL-00. */
export type Disposition = "keep_running" | "stop_and_retain" | "destroy"

export interface Release {
  readonly lease: EnvironmentLease
  /** null when the environment is gone. */
  readonly environment: Environment | null
  readonly status: "released" | "expired" | "failed"
  readonly disposition?: Disposition
  readonly cancelActiveWork?: boolean
  /** Who ends it in the run's stead, and why; both are told by the row. Source: FC-22. */
  readonly ending?: { readonly actor: string; readonly reason: string }
}

export interface Workspace {
  readonly localPath: string
  readonly mode: string
  readonly metadata?: JsonObject
}

export interface RealizedWorkspace {
  readonly cwd: string
  readonly metadata: JsonObject
}

export interface Execution {
  readonly environment: Environment
  readonly lease: EnvironmentLease
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly cwd: string
  readonly env: { readonly [name: string]: string }
  readonly stdin?: string
  readonly timeoutMillis?: number
  readonly commandTimeoutMillis?: number
  readonly bypassSession?: boolean
  readonly forceSession?: boolean
  readonly logSink?: LogSink
}

/** A lease with the environment that it is one of. */
export interface LeaseInPlace {
  readonly environment: Environment
  readonly lease: EnvironmentLease
}

/** A lease whose resource is to go, with who wants it and why where that is known. */
export type Destruction = LeaseInPlace & Pick<Release, "ending">

/**
 * The typed errors of RunLeaseErrors.ts and the store's, or whatever error a provider or a consumer's driver failed with:
 * the very object, since callers compare it. Source: RL-CREATE-09.
 */
export type DriverError = Error

export interface EnvironmentDriver {
  readonly driver: string
  /** Creates or resumes a resource and answers its row. */
  readonly acquireRunLease: (asked: Acquisition) => Effect.Effect<EnvironmentLease, DriverError>
  /** The row as it is afterwards, or null where it was not this caller's to end. */
  readonly releaseRunLease: (asked: Release) => Effect.Effect<EnvironmentLease | null, DriverError>
  readonly resumeRunLease?: (
    asked: LeaseInPlace
  ) => Effect.Effect<{ readonly providerLeaseId: string; readonly metadata?: JsonObject }, DriverError>
  readonly destroyRunLease?: (asked: Destruction) => Effect.Effect<EnvironmentLease, DriverError>
  readonly realizeWorkspace?: (
    asked: LeaseInPlace & { readonly workspace: Workspace }
  ) => Effect.Effect<RealizedWorkspace, DriverError>
  readonly execute?: (asked: Execution) => Effect.Effect<CommandResult, DriverError>
}

/** Told of a lease whose release failed; the others go on. Source: RL-REL-10. */
export type ReleaseFault = (lease: EnvironmentLeaseId, error: Error) => Effect.Effect<void>
