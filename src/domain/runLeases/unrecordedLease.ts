/**
 * The lease that a resource would have had: the form in which something is looked for, and recorded, that a provider holds
 * and no row knows. Source: FC-02, FC-03.
 */
import { type Environment, providerKeyOf } from "../environments/Environment.ts"
import { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import type { EnvironmentId, EnvironmentLeaseId, RunId, TenantId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import { driverConfigOf } from "./pluginCalls.ts"
import { providerConfigOf } from "./SandboxRequest.ts"

export interface Unrecorded {
  readonly id: EnvironmentLeaseId
  readonly tenant: TenantId
  /** As it is now; null where it is gone, or where there never was one. */
  readonly environment: Environment | null
  /** Of the row, also where the environment itself is gone. */
  readonly environmentId: EnvironmentId | null
  readonly run: RunId | null
  /** Provider key, or the driver key of the driver `plugin`. */
  readonly provider: string
  /** Keys of the plugin that it is pinned to. */
  readonly pin: JsonObject
  readonly failureReason: string
}

/** The config by which the provider is asked: the environment's present one, while it still names that provider. */
const configOf = (environment: Environment | null, provider: string): JsonObject => {
  if (environment?.driver === "plugin") return driverConfigOf(environment)
  return environment !== null && providerKeyOf(environment.config) === provider
    ? providerConfigOf(environment.config)
    : {}
}

/** The row that would owe its cleanup; the provider's id of it is not known yet. */
export const unrecordedLease = (unrecorded: Unrecorded): EnvironmentLease => {
  const { environment, environmentId, failureReason, id, pin, provider, run, tenant } = unrecorded
  const sentConfig = configOf(environment, provider)
  const own =
    environment?.driver === "plugin"
      ? { driver: "plugin", driverKey: provider }
      : { ...sentConfig, driver: "sandbox", provider }
  return new EnvironmentLease({
    id,
    tenant,
    environment: environmentId,
    executionWorkspace: null,
    task: null,
    run,
    status: "pending_cleanup",
    policy: "ephemeral",
    provider,
    providerLeaseId: null,
    expiresAtMillis: null,
    releasedAtMillis: 0,
    failureReason,
    cleanupStatus: "failed",
    metadata: { ...own, ...pin },
    sentConfig,
    cleanupTries: 0,
    needsOperator: false,
    endedBy: "acquisition",
    createdAtMillis: 0
  })
}
