/** Leases and plugins for tests of the pure decisions, from a partial description. */
import { EnvironmentLease } from "../../../src/domain/environments/EnvironmentLease.ts"
import {
  AgentId,
  EnvironmentId,
  EnvironmentLeaseId,
  ExecutionWorkspaceId,
  ProviderPluginId,
  RunId,
  SecretId,
  TaskId,
  TenantId
} from "../../../src/domain/Identity.ts"
import { ProviderPlugin, type ProviderManifest } from "../../../src/domain/providers/ProviderPlugin.ts"

/** A uuid that ends in the number. */
export const uuidOf = (ending: number): string =>
  `00000000-0000-4000-8000-${ending.toString(16).padStart(12, "0")}`

export const tenant = TenantId.make(uuidOf(1))
export const otherTenant = TenantId.make(uuidOf(2))
export const environment = EnvironmentId.make(uuidOf(3))
export const agent = AgentId.make(uuidOf(4))
export const otherAgent = AgentId.make(uuidOf(5))
export const run = RunId.make(uuidOf(6))
export const otherRun = RunId.make(uuidOf(7))
export const task = TaskId.make(uuidOf(8))
export const otherTask = TaskId.make(uuidOf(9))
export const workspace = ExecutionWorkspaceId.make(uuidOf(10))
export const plugin = ProviderPluginId.make(uuidOf(11))
export const otherPlugin = ProviderPluginId.make(uuidOf(12))
export const leaseId = EnvironmentLeaseId.make(uuidOf(13))
export const secret = SecretId.make(uuidOf(14))
export const otherEnvironment = EnvironmentId.make(uuidOf(15))
export const providerLeaseId = "reusable-plugin-lease"

export const pinned = { driver: "sandbox", pluginId: plugin, pluginKey: "acme", sandboxProviderPlugin: true }

type LeaseFields = ConstructorParameters<typeof EnvironmentLease>[0]

/** A plugin-backed lease that owes its cleanup. */
export const leaseOf = (given: Partial<LeaseFields> = {}): EnvironmentLease =>
  new EnvironmentLease({
    id: leaseId,
    tenant,
    environment,
    executionWorkspace: workspace,
    task: null,
    run,
    status: "pending_cleanup",
    policy: "reuse_by_environment",
    provider: "fake-plugin",
    providerLeaseId,
    expiresAtMillis: null,
    releasedAtMillis: null,
    failureReason: null,
    cleanupStatus: null,
    metadata: pinned,
    sentConfig: null,
    cleanupTries: 0,
    needsOperator: false,
    endedBy: null,
    createdAtMillis: 0,
    ...given
  })

type Entry = NonNullable<ProviderManifest["environmentDrivers"]>[number]

export const pluginOf = (entry: Partial<Entry> | null): ProviderPlugin =>
  new ProviderPlugin({
    id: plugin,
    pluginKey: "acme",
    packageName: "@acme/provider",
    version: "1.0.0",
    apiVersion: 1,
    manifest: {
      id: "acme",
      apiVersion: 1,
      version: "1.0.0",
      ...(entry === null
        ? {}
        : { environmentDrivers: [{ driverKey: "fake-plugin", kind: "sandbox_provider", ...entry }] })
    },
    status: "ready",
    installOrder: 0
  })
