/** The tables of run leases that no pruning bounds refuse what goes beyond, with a name of ours. Source: FC-15. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import * as Bounds from "../../../src/domain/Bounds.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { EnvironmentId, SecretId, type TenantId } from "../../../src/domain/Identity.ts"
import type { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { SecretStore } from "../../../src/domain/secrets/SecretStore.ts"
import { WorkStore } from "../../../src/domain/work/WorkStore.ts"
import { newAgent, newEnvironment, newTenant, newWorkspace, onClone } from "../../domain/runLeases/fixture.ts"
import { sql, value } from "../../domain/runLeases/rawRows.ts"

const sealed = { key: "k", nonce: new Uint8Array(12), box: new Uint8Array(17) }

type Needs = EnvironmentStore | PluginDb | SecretStore | WorkStore

/**
 * `fill` inserts so many rows for the tenant past the store; `ask` is one more by the store, for any tenant. Where the
 * bound is of a tenant, another one still has room.
 */
interface Refusing {
  readonly table: string
  readonly rowsMax: number
  readonly ofTenant: boolean
  readonly code: string
  readonly fill: (tenant: TenantId, rows: number) => Effect.Effect<unknown, unknown, Needs>
  readonly ask: (tenant: TenantId) => Effect.Effect<unknown, unknown, Needs>
}

const fill =
  (text: string): Refusing["fill"] =>
  (tenant, rows) =>
    sql(text, [tenant, rows])

const environment = EnvironmentId.make("00000000-0000-4000-8000-0000000000ee")

const refusing: ReadonlyArray<Refusing> = [
  {
    table: "core.agents",
    rowsMax: Bounds.tenantAgentsMax,
    ofTenant: true,
    code: "work_table_full",
    fill: fill(`insert into core.agents (tenant_id, name, adapter_type)
        select $1::uuid, 'a', 'local_agent' from generate_series(1, $2::int)`),
    ask: (tenant) => newAgent(tenant)
  },
  {
    table: "core.tasks",
    rowsMax: Bounds.tenantTasksMax,
    ofTenant: true,
    code: "work_table_full",
    fill: fill(
      `insert into core.tasks (tenant_id, title) select $1::uuid, 't' from generate_series(1, $2::int)`
    ),
    ask: (tenant) => WorkStore.use((work) => work.createTask({ tenant, title: "t", assignee: null }))
  },
  {
    table: "execution_workspaces",
    rowsMax: Bounds.tenantExecutionWorkspacesMax,
    ofTenant: true,
    code: "work_table_full",
    fill: (tenant, rows) =>
      Effect.gen(function* () {
        const { project } = yield* newWorkspace(tenant)

        yield* sql(
          `insert into execution_workspaces (tenant_id, project_id, name)
                select $1::uuid, $3::bigint, 'w' from generate_series(1, $2::int - 1)`,
          [tenant, rows, project]
        )
      }),
    ask: (tenant) => newWorkspace(tenant)
  },
  {
    table: "core.secrets",
    rowsMax: Bounds.tenantSecretsMax,
    ofTenant: true,
    code: "secrets_full",
    fill: fill(`insert into core.secrets (id, tenant_id, name)
        select gen_random_uuid(), $1::uuid, gen_random_uuid()::text from generate_series(1, $2::int)`),
    ask: (tenant) =>
      SecretStore.use((store) =>
        store.create({ id: SecretId.make(randomUUID()), tenant, name: randomUUID(), sealed })
      )
  },
  {
    table: "core.secret_bindings",
    rowsMax: Bounds.tenantSecretBindingsMax,
    ofTenant: true,
    code: "secrets_full",
    fill: fill(`with secret as (
          insert into core.secrets (id, tenant_id, name) values (gen_random_uuid(), $1::uuid, 'filling') returning id)
        insert into core.secret_bindings (tenant_id, target_id, config_path, secret_id)
          select $1::uuid, gen_random_uuid(), 'apiKey', id from secret, generate_series(1, $2::int)`),
    ask: (tenant) =>
      Effect.gen(function* () {
        const store = yield* SecretStore
        const id = SecretId.make(randomUUID())
        yield* store.create({ id, tenant, name: randomUUID(), sealed })
        yield* store.bind({ tenant, secret: id, environment: environment, configPath: randomUUID() })
      })
  },
  {
    table: "environments",
    rowsMax: Bounds.environmentsMax - 1,
    ofTenant: false,
    code: "environments_full",
    fill: fill(`insert into environments (name, driver)
        select gen_random_uuid()::text, 'ssh' from generate_series(1, $2::int) where $1::uuid is not null`),
    ask: () => newEnvironment("ssh")
  },
  {
    table: "managed_resource_bindings",
    rowsMax: Bounds.managedResourceBindingsMax,
    ofTenant: false,
    code: "environments_full",
    fill: fill(`insert into managed_resource_bindings
          (tenant_id, resource_key, resource_id, stock_version, stock_hash)
        select $1::uuid, gen_random_uuid()::text, '${environment}', 1, 'h' from generate_series(1, $2::int)`),
    ask: (tenant) =>
      EnvironmentStore.use((environments) =>
        environments.bindManagedResource({
          tenant,
          environment: environment,
          resourceKey: randomUUID(),
          stockVersion: 1,
          stockHash: "h"
        })
      )
  },
  {
    table: "core.provider_plugins",
    rowsMax: Bounds.providerPluginsMax,
    ofTenant: false,
    code: "storage_failure",
    fill: fill(`insert into core.provider_plugins (plugin_key, package_name, version, manifest_json, status)
        select gen_random_uuid()::text, 'p', '1', '{}', 'ready' from generate_series(1, $2::int)
        where $1::uuid is not null`),
    ask: () =>
      sql(`insert into core.provider_plugins (plugin_key, package_name, version, manifest_json, status)
            values (gen_random_uuid()::text, 'p', '1', '{}', 'ready')`)
  }
]

describe("bounds of the tables of run leases", () => {
  it.live(
    "FC-15 each takes as many rows as its bound, refuses the next one by a sentence, and has room for another tenant",
    () =>
      Effect.gen(function* () {
        yield* sql("insert into environments (id, name, driver) values ($1::uuid, 'bound', 'ssh')", [
          environment
        ])
        for (const { ask, code, fill: insert, ofTenant, rowsMax, table } of refusing) {
          const scene = { tenant: yield* newTenant, other: yield* newTenant }
          yield* insert(scene.tenant, rowsMax - 1)
          yield* ask(scene.tenant)
          const count = value(`select count(*)::int from ${table}`)
          const before = yield* count
          const refused = yield* Effect.flip(ask(scene.tenant))
          assert.deepInclude(refused, { code }, table)
          assert.strictEqual(yield* count, before, table)
          if (ofTenant) yield* ask(scene.other)
          else assert.deepInclude(yield* Effect.flip(ask(scene.other)), { code }, table)
        }
      }).pipe(onClone),
    60_000
  )
})
