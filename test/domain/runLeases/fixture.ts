/**
 * What the tests of run leases share: a clone with every store of theirs, makers of what leases refer to, and the
 * standard fixture F-REUSE of the specification. Workers are in scriptedWorkers.ts, rows as they lie in rawRows.ts.
 */
import { hash, randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import type { Environment, EnvironmentDriverName } from "../../../src/domain/environments/Environment.ts"
import { type AgentId, type ExecutionWorkspaceId, ProjectId, TenantId } from "../../../src/domain/Identity.ts"
import { canonicalText, type JsonObject } from "../../../src/domain/Json.ts"
import type { EnvironmentDriverEntry, ProviderPlugin } from "../../../src/domain/providers/ProviderPlugin.ts"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { nativeRunnerAdapter, type RunStatus } from "../../../src/domain/work/Work.ts"
import { WorkStore } from "../../../src/domain/work/WorkStore.ts"
import { clone } from "../../support/clone.ts"
import { overHandle } from "./leaseStores.ts"
import { newLease, type RawLease, setRun, sql, value } from "./rawRows.ts"

/** A clone of its own with all of it. */
export const fixture = overHandle.pipe(Layer.provideMerge(clone(6)))

/** Runs a test on a clone of its own. */
export const onClone = <A, E, R>(test: Effect.Effect<A, E, R>) =>
  test.pipe(Effect.scoped, Effect.provide(fixture))

let names = 0
const nameNext = (what: string): string => `${what}-${(names += 1)}`

export const newTenant = Effect.gen(function* () {
  const id = TenantId.make(randomUUID())
  yield* sql("insert into core.tenants (id, name) values ($1::uuid, $1::text)", [id])
  return id
})

export const newAgent = (tenant: TenantId, adapterType = "local_agent") =>
  WorkStore.use((work) => work.createAgent({ tenant, name: nameNext("agent"), adapterType }))

export const newRun = (tenant: TenantId, agent: AgentId, status: RunStatus = "running") =>
  WorkStore.use((work) => work.createRun({ tenant, agent, status }))

export const newTask = (tenant: TenantId, assignee: AgentId | null = null) =>
  WorkStore.use((work) => work.createTask({ tenant, title: nameNext("task"), assignee }))

/** A workspace in a Project of its own. */
export const newWorkspace = (tenant: TenantId, mode = "shared_workspace") =>
  Effect.gen(function* () {
    const project = ProjectId.make(
      Number(
        yield* value("insert into core.projects (tenant_id, name) values ($1::uuid, $2::text) returning id", [
          tenant,
          nameNext("project")
        ])
      )
    )
    return yield* WorkStore.use((work) =>
      work.createWorkspace({ tenant, project, name: nameNext("workspace"), mode })
    )
  })

export const newEnvironment = (driver: EnvironmentDriverName, config: JsonObject = {}) =>
  EnvironmentStore.use((environments) =>
    environments.create({ name: nameNext("environment"), driver, config })
  )

/** A schema as the plugin of F-REUSE declares it. */
export const fakeConfigSchema: JsonObject = {
  type: "object",
  properties: {
    image: { type: "string" },
    timeoutMs: { type: "number" },
    reuseLease: { type: "boolean" }
  }
}

/** The driver entry of F-REUSE; what is undefined in `given` is taken out. */
export const fakeEntry = (
  given: {
    readonly [Key in keyof EnvironmentDriverEntry]?: EnvironmentDriverEntry[Key] | undefined
  } = {}
): EnvironmentDriverEntry => {
  const entry = {
    driverKey: "fake-plugin",
    kind: "sandbox_provider",
    displayName: "Fake plugin",
    supportsReusableLeases: true,
    configSchema: fakeConfigSchema,
    ...given
  }
  return Object.fromEntries(
    Object.entries(entry).filter(([, each]) => each !== undefined)
  ) as EnvironmentDriverEntry
}

/** An installed plugin, `ready` unless told. */
export const newPlugin = (
  given: {
    readonly key?: string
    readonly entries?: ReadonlyArray<EnvironmentDriverEntry>
    readonly status?: ProviderPlugin["status"]
    readonly installOrder?: number
  } = {}
) =>
  ProviderPlugins.use((plugins) =>
    plugins.install({
      packageName: "@acme/fake-plugin",
      manifest: {
        id: given.key ?? nameNext("acme.fake"),
        apiVersion: 1,
        version: "1.0.0",
        displayName: "Fake",
        description: "A provider of the tests",
        author: "Acme",
        categories: ["automation"],
        capabilities: ["environment.drivers.register"],
        entrypoints: { worker: "dist/worker.js" },
        environmentDrivers: given.entries ?? [fakeEntry()]
      },
      status: given.status ?? "ready",
      installOrder: given.installOrder ?? 1
    })
  )

/** The older fingerprint of a reusable lease, computed here by its own words. Source: RL-REUSE-20. */
export const runtimeFingerprintOf = (config: JsonObject, adapterType: string | null): string =>
  hash("sha256", canonicalText({ provider: config["provider"], adapterType, config }), "hex")

export const reusableConfig: JsonObject = {
  provider: "fake-plugin",
  image: "fake:test",
  timeoutMs: 1234,
  reuseLease: true
}

/** The provider lease id of F-REUSE. */
export const reusableLeaseId = "reusable-plugin-lease"

export interface ReuseOptions {
  /** The stamp and the agent are those of the native runner. */
  readonly native?: boolean
  /** The environment's stored config, which the lease recorded. */
  readonly config?: JsonObject
  readonly entry?: Parameters<typeof fakeEntry>[0]
  readonly pluginKey?: string
  readonly runStatus?: string
  /** Keys merged into the lease's metadata; those that are undefined are not there. */
  readonly metadata?: JsonObject
  /** Columns of the lease beside those of F-REUSE. */
  readonly lease?: RawLease
  /** Without it the lease names no task. */
  readonly withTask?: boolean
}

const reuseMetadata = (
  scene: {
    readonly tenant: TenantId
    readonly agent: AgentId
    readonly workspace: ExecutionWorkspaceId
    readonly environment: Environment
    readonly plugin: ProviderPlugin
  },
  adapterType: string | null
): JsonObject => ({
  agentId: scene.agent,
  driver: "sandbox",
  executionWorkspaceMode: "shared_workspace",
  pluginId: scene.plugin.id,
  pluginKey: scene.plugin.pluginKey,
  sandboxProviderPlugin: true,
  ...scene.environment.config,
  reusableSandboxLease: {
    version: 1,
    tenantId: scene.tenant,
    environmentId: scene.environment.id,
    executionWorkspaceId: scene.workspace,
    agentId: scene.agent,
    adapterType,
    provider: scene.environment.config["provider"],
    runtimeFingerprint: runtimeFingerprintOf(scene.environment.config, adapterType)
  }
})

/** F-REUSE: the standard fixture of many rules, with what the options change of it. Source: RL section 4. */
export const reuseFixture = (options: ReuseOptions = {}) =>
  Effect.gen(function* () {
    const adapterType = options.native === true ? nativeRunnerAdapter : null
    const tenant = yield* newTenant
    const agent = yield* newAgent(tenant, adapterType ?? "local_agent")
    const run = yield* newRun(tenant, agent.id)
    const task = yield* newTask(tenant, agent.id)
    const workspace = yield* newWorkspace(tenant)
    const environment = yield* newEnvironment("sandbox", options.config ?? reusableConfig)
    const plugin = yield* newPlugin({
      ...(options.pluginKey === undefined ? {} : { key: options.pluginKey }),
      entries: [fakeEntry(options.entry)]
    })
    const metadata = {
      ...reuseMetadata(
        { tenant, agent: agent.id, workspace: workspace.id, environment, plugin },
        adapterType
      ),
      ...options.metadata
    }
    const lease = yield* newLease(tenant, environment.id, {
      lease_policy: "reuse_by_environment",
      provider: "fake-plugin",
      provider_lease_id: reusableLeaseId,
      execution_workspace_id: workspace.id,
      task_id: options.withTask === true ? task.id : null,
      run_id: run.id,
      metadata,
      ...options.lease
    })
    if (options.runStatus !== undefined) yield* setRun(run.id, options.runStatus)
    return {
      tenant,
      agent: agent.id,
      run: run.id,
      task: task.id,
      project: workspace.project,
      workspace: workspace.id,
      environment,
      plugin,
      lease
    }
  })
