/**
 * What the API shows of environments, their leases, runs, secrets and providers: plain data. Configs hold references of
 * secrets and never values; a lease's metadata and config leave by no view, since a provider may have put anything there.
 */
import * as Schema from "effect/Schema"
import {
  CleanupStatus,
  type EnvironmentLease,
  EnvironmentLeaseStatus,
  LeasePolicy
} from "../../domain/environments/EnvironmentLease.ts"
import { type Environment, EnvironmentDriverName } from "../../domain/environments/Environment.ts"
import {
  EnvironmentId,
  EnvironmentLeaseId,
  ProviderPluginId,
  RunId,
  SecretId,
  TenantId
} from "../../domain/Identity.ts"
import { type ProviderPlugin, ProviderPluginStatus } from "../../domain/providers/ProviderPlugin.ts"
import { leaseStorySteps } from "../../domain/runLeases/leaseStory.ts"
import type { Secret } from "../../domain/secrets/Secret.ts"
import type { WorkerStanding } from "../providers/ProviderWorkers.ts"

export const EnvironmentRowView = Schema.Struct({
  id: EnvironmentId,
  name: Schema.String,
  description: Schema.NullOr(Schema.String),
  driver: EnvironmentDriverName,
  status: Schema.Literals(["active", "disabled"]),
  config: Schema.Record(Schema.String, Schema.Unknown),
  createdAtMillis: Schema.Int,
  updatedAtMillis: Schema.Int
})
export type EnvironmentRowView = typeof EnvironmentRowView.Type

export const environmentRowView = (environment: Environment): EnvironmentRowView => ({
  id: environment.id,
  name: environment.name,
  description: environment.description,
  driver: environment.driver,
  status: environment.status,
  config: environment.config,
  createdAtMillis: environment.createdAtMillis,
  updatedAtMillis: environment.updatedAtMillis
})

/** A deleted environment with what was destroyed for it. */
export const EnvironmentDeletionView = Schema.Struct({ id: EnvironmentId, destroyed: Schema.Int })
export type EnvironmentDeletionView = typeof EnvironmentDeletionView.Type

export const EnvironmentLeaseView = Schema.Struct({
  id: EnvironmentLeaseId,
  tenant: TenantId,
  environment: Schema.NullOr(EnvironmentId),
  run: Schema.NullOr(RunId),
  status: EnvironmentLeaseStatus,
  policy: LeasePolicy,
  driver: Schema.NullOr(Schema.String),
  provider: Schema.NullOr(Schema.String),
  providerLeaseId: Schema.NullOr(Schema.String),
  failureReason: Schema.NullOr(Schema.String),
  cleanupStatus: Schema.NullOr(CleanupStatus),
  cleanupTries: Schema.Int,
  needsOperator: Schema.Boolean,
  endedBy: Schema.NullOr(Schema.String),
  createdAtMillis: Schema.Int,
  releasedAtMillis: Schema.NullOr(Schema.Int),
  expiresAtMillis: Schema.NullOr(Schema.Int)
})
export type EnvironmentLeaseView = typeof EnvironmentLeaseView.Type

export const environmentLeaseView = (lease: EnvironmentLease): EnvironmentLeaseView => {
  const driver = lease.metadata["driver"]
  return {
    id: lease.id,
    tenant: lease.tenant,
    environment: lease.environment,
    run: lease.run,
    status: lease.status,
    policy: lease.policy,
    driver: typeof driver === "string" ? driver : null,
    provider: lease.provider,
    providerLeaseId: lease.providerLeaseId,
    failureReason: lease.failureReason,
    cleanupStatus: lease.cleanupStatus,
    cleanupTries: lease.cleanupTries,
    needsOperator: lease.needsOperator,
    endedBy: lease.endedBy,
    createdAtMillis: lease.createdAtMillis,
    releasedAtMillis: lease.releasedAtMillis,
    expiresAtMillis: lease.expiresAtMillis
  }
}

/** What became of a lease, in the order in which it happened. Source: FC-22. */
export const LeaseWhyView = Schema.Struct({
  lease: EnvironmentLeaseView,
  steps: Schema.Array(
    Schema.Struct({
      step: Schema.Literals(leaseStorySteps),
      text: Schema.String,
      actor: Schema.NullOr(Schema.String),
      reason: Schema.NullOr(Schema.String),
      atMillis: Schema.NullOr(Schema.Int)
    })
  )
})
export type LeaseWhyView = typeof LeaseWhyView.Type

/** One pass of the cleanup sweep. Rows that were left to somebody else are not attempted. */
export const CleanupSweepView = Schema.Struct({
  attempted: Schema.Int,
  done: Schema.Int,
  failed: Schema.Int,
  /** Rows that were made for what only the spool or the memory of the daemon knew of. */
  recovered: Schema.Int
})
export type CleanupSweepView = typeof CleanupSweepView.Type

const Streams = Schema.Literals(["stdout", "stderr"])

/**
 * One line of a run's stream. `started` comes first; exactly one of `exited` and `failed` comes last, unless the
 * connection broke, and then the run and its lease are ended. `released` says what became of the lease.
 */
export const RunLine = Schema.Union([
  Schema.Struct({
    type: Schema.Literal("started"),
    run: RunId,
    lease: EnvironmentLeaseId,
    provider: Schema.NullOr(Schema.String),
    providerLeaseId: Schema.NullOr(Schema.String)
  }),
  Schema.Struct({ type: Schema.Literal("output"), stream: Streams, text: Schema.String }),
  Schema.Struct({ type: Schema.Literal("truncated"), stream: Streams, bytesMax: Schema.Int }),
  Schema.Struct({
    type: Schema.Literal("released"),
    lease: EnvironmentLeaseId,
    status: EnvironmentLeaseStatus,
    cleanupStatus: Schema.NullOr(CleanupStatus)
  }),
  /** `exitCode` is null where a signal ended the command. */
  Schema.Struct({
    type: Schema.Literal("exited"),
    exitCode: Schema.NullOr(Schema.Int),
    signal: Schema.NullOr(Schema.String),
    timedOut: Schema.Boolean
  }),
  Schema.Struct({ type: Schema.Literal("failed"), code: Schema.String, message: Schema.String })
])
export type RunLine = typeof RunLine.Type

/** A secret without its values: they never leave. */
export const SecretView = Schema.Struct({
  id: SecretId,
  name: Schema.String,
  version: Schema.Int,
  createdAtMillis: Schema.Int,
  rotatedAtMillis: Schema.Int
})
export type SecretView = typeof SecretView.Type

export const secretView = ({ createdAtMillis, id, name, rotatedAtMillis, version }: Secret): SecretView => ({
  id,
  name,
  version,
  createdAtMillis,
  rotatedAtMillis
})

/** An installed provider plugin and how its worker stands. */
export const ProviderView = Schema.Struct({
  id: ProviderPluginId,
  key: Schema.String,
  version: Schema.String,
  folder: Schema.String,
  status: ProviderPluginStatus,
  drivers: Schema.Array(Schema.String),
  worker: Schema.Struct({
    running: Schema.Boolean,
    pid: Schema.NullOr(Schema.Int),
    starts: Schema.Int,
    trouble: Schema.NullOr(Schema.String)
  })
})
export type ProviderView = typeof ProviderView.Type

export const providerView = (plugin: ProviderPlugin, standing: WorkerStanding | undefined): ProviderView => ({
  id: plugin.id,
  key: plugin.pluginKey,
  version: plugin.version,
  folder: plugin.packageName,
  status: plugin.status,
  drivers: (plugin.manifest.environmentDrivers ?? []).map(({ driverKey }) => driverKey),
  worker: {
    running: standing !== undefined && standing.pid !== null,
    pid: standing?.pid ?? null,
    starts: standing?.starts ?? 0,
    trouble: standing?.trouble ?? null
  }
})
