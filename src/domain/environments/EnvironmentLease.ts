/**
 * A lease of a run on an environment: the row that says which resource of which provider is owed, to whom, and what is
 * still to be done about it. Its metadata is the contract with providers and with other programs, so its keys are as
 * they are written down. Source: RL sections 2.1, 2.2, 5.1.
 */
import * as Schema from "effect/Schema"
import {
  EnvironmentId,
  EnvironmentLeaseId,
  ExecutionWorkspaceId,
  ProviderPluginId,
  RunId,
  TaskId,
  TenantId
} from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import type { Environment } from "./Environment.ts"

/**
 * - `active`: held by its run. `released`: handed back; with a reusable policy a stopped resource that may be resumed.
 * - `retained`: kept alive on purpose, or because its release could not be verified.
 * - `failed`: released after a failed run. `pending_cleanup`: a teardown or a stop is owed.
 * - `expired`: the end; nothing leaves it.
 */
export const EnvironmentLeaseStatus = Schema.Literals([
  "active",
  "released",
  "retained",
  "expired",
  "failed",
  "pending_cleanup"
])
export type EnvironmentLeaseStatus = typeof EnvironmentLeaseStatus.Type

export const LeasePolicy = Schema.Literals(["ephemeral", "reuse_by_environment", "retain_on_failure"])
export type LeasePolicy = typeof LeasePolicy.Type

export const CleanupStatus = Schema.Literals(["success", "failed"])
export type CleanupStatus = typeof CleanupStatus.Type

export class EnvironmentLease extends Schema.Class<EnvironmentLease>("holdfast/EnvironmentLease")({
  id: EnvironmentLeaseId,
  tenant: TenantId,
  environment: Schema.NullOr(EnvironmentId),
  executionWorkspace: Schema.NullOr(ExecutionWorkspaceId),
  task: Schema.NullOr(TaskId),
  run: Schema.NullOr(RunId),
  status: EnvironmentLeaseStatus,
  policy: LeasePolicy,
  provider: Schema.NullOr(Schema.String),
  /** Not unique: several rows may name one resource. */
  providerLeaseId: Schema.NullOr(Schema.String),
  /** Only what the provider attested. Source: RL-EXPIRY-02. */
  expiresAtMillis: Schema.NullOr(Schema.Int),
  releasedAtMillis: Schema.NullOr(Schema.Int),
  failureReason: Schema.NullOr(Schema.String),
  cleanupStatus: Schema.NullOr(CleanupStatus),
  metadata: Schema.Record(Schema.String, Schema.Unknown),
  /**
   * The config that was sent at the acquisition, secrets as references; null for rows that were recorded without one
   * (orphans, older rows). Source: RL 6.1 items 15 and 16.
   */
  sentConfig: Schema.NullOr(Schema.Record(Schema.String, Schema.Unknown)),
  /** Cleanups that did not come to an end, and whether they need a person by now. Source: FC-09. */
  cleanupTries: Schema.Int,
  needsOperator: Schema.Boolean,
  /** Who ended it (`run`, `sweep`, `agent_stop`, an account, …), once it is no longer active. Source: FC-22. */
  endedBy: Schema.NullOr(Schema.String),
  createdAtMillis: Schema.Int
}) {}

export interface LeaseInEnvironment {
  readonly lease: EnvironmentLease
  /** null when the environment is gone. */
  readonly environment: Environment | null
}

/** Metadata keys that are the host's: they are no part of a provider's config. Source: RL section 2.2. */
export const hostMetadataKeys: ReadonlySet<string> = new Set([
  "driver",
  "executionWorkspaceMode",
  "agentId",
  "provider",
  "pluginId",
  "pluginKey",
  "sandboxProviderPlugin",
  "driverKey",
  "providerMetadata",
  "remoteCwd",
  "host",
  "port",
  "username",
  "remoteWorkspacePath",
  "reusableSandboxLease",
  "sandboxLeaseAcquisition",
  "acquisitionRequest",
  "nativeWorkspaceSync",
  "nativeHarnessBackup",
  "nativeWorkspaceExportResume",
  "sandboxStopAndRetain",
  "sandboxStopAndRetainReceipt",
  "remoteExecutionTermination",
  "providerAbsence",
  "failedCreateCleanup",
  "pendingCleanupAttemptId",
  "pendingCleanupInFlight",
  "pendingCleanupLeaseExpiresAtMs"
])

/** Keys of the metadata that say "only ever stop this", whether or not they can be read. Source: RL 6.1 item 2. */
export const stopOnlyMarkerKeys = ["nativeWorkspaceExportResume", "sandboxStopAndRetain"] as const

const isPluginId = Schema.is(ProviderPluginId)

/** The plugin that the lease is pinned to, or null: then nothing may be guessed from a provider key. */
export const pinOf = ({ metadata }: { readonly metadata: JsonObject }): ProviderPluginId | null =>
  isPluginId(metadata["pluginId"]) ? metadata["pluginId"] : null

/** Whether the lease's resource is a plugin's, whatever plugin that is. */
export const isPluginBacked = ({ metadata }: { readonly metadata: JsonObject }): boolean =>
  metadata["sandboxProviderPlugin"] === true
