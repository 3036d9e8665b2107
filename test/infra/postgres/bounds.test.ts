/** Every table has a bound with a name, and those that no pruning bounds refuse what goes beyond. Source: FC-15. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { randomUUID } from "node:crypto"
import * as Bounds from "../../../src/domain/Bounds.ts"
import { ProjectStore } from "../../../src/domain/host/ProjectStore.ts"
import { NodeId } from "../../../src/domain/Identity.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import * as PostgresProjectStore from "../../../src/infra/postgres/ProjectStore.ts"
import { fixture, newProject, nodeHere, rows, value } from "./operationsFixture.ts"

/** The bound of each table. A table that is bounded by another one's rows names that one's. */
const boundsOf: Readonly<Record<string, ReadonlyArray<number>>> = {
  "core.tenants": [Bounds.tenantsMax],
  "core.accounts": [Bounds.tenantAccountsMax],
  "core.projects": [Bounds.tenantProjectsMax],
  "core.memberships": [Bounds.projectMembershipsMax],
  "core.project_deletions": [Bounds.deletionRecordsMax, Bounds.tenantProjectsMax],
  "core.plugins": [Bounds.pluginsMax],
  "core.alerts": [Bounds.alertRowsMax],
  "core.audit_log": [Bounds.auditRowsMax],
  "core.agents": [Bounds.tenantAgentsMax],
  "core.runs": [Bounds.tenantRunsMax, Bounds.endedRunsRemovedMax],
  "core.tasks": [Bounds.tenantTasksMax],
  "core.secrets": [Bounds.tenantSecretsMax],
  "core.secret_versions": [Bounds.secretVersionsMax],
  "core.secret_bindings": [Bounds.tenantSecretBindingsMax],
  "core.provider_plugins": [Bounds.providerPluginsMax],
  "plugin_sandbox.nodes": [Bounds.nodesMax],
  "plugin_sandbox.runtimes": [Bounds.tenantProjectsMax],
  "plugin_sandbox.runtime_operations": [
    Bounds.receiptsKeptMin,
    Bounds.receiptsTrimmedMax,
    Bounds.removedProjectsKeptMax
  ],
  "plugin_sandbox.live_operations": [Bounds.tenantProjectsMax],
  "plugin_sandbox.runtime_snapshots": [Bounds.projectSnapshotsMax],
  "plugin_sandbox.worktrees": [Bounds.projectWorktreesMax],
  "plugin_sandbox.runtime_logs": [Bounds.runtimeLogRowsMax],
  "plugin_sandbox.execution_leases": [Bounds.projectLeasesMax, Bounds.cancelTombstonesKeptMin],
  "plugin_sandbox.repository_claims": [Bounds.projectRepositoriesMax],
  "plugin_sandbox.resource_samples": [Bounds.minuteHistorySeconds, Bounds.historyPruneRowsMax],
  "plugin_sandbox.resource_rollups": [Bounds.hourHistorySeconds, Bounds.historyPruneRowsMax],
  "plugin_sandbox.history_deletions": [Bounds.historyPruneRowsMax],
  "plugin_sandbox.environments": [Bounds.environmentsMax],
  "plugin_sandbox.managed_resource_bindings": [Bounds.managedResourceBindingsMax],
  "plugin_sandbox.execution_workspaces": [Bounds.tenantExecutionWorkspacesMax],
  "plugin_sandbox.provider_intents": [Bounds.environmentIntentsMax],
  "plugin_sandbox.environment_leases": [
    Bounds.environmentLeasesLiveMax,
    Bounds.endedLeaseKeptSeconds,
    Bounds.endedLeasesPrunedMax
  ]
}

/** One row for each migration that there is. */
const boundedByTheCode = /\.schema_migrations$/

const tenant = randomUUID()
const project = Effect.map(newProject, (scene) => scene.project)

const insertNodes = `insert into nodes (id, name) select gen_random_uuid(), 'n' from generate_series(1, $2::int)
  where $1::bigint = 0`

/** Tables that refuse: how the given number of rows is inserted, for one owner that has none yet. */
const refusing = [
  {
    table: "core.tenants",
    rowsMax: Bounds.tenantsMax,
    owner: Effect.succeed(0),
    insert: `insert into core.tenants (id, name) select gen_random_uuid(), 'bounded-' || gen_random_uuid()
      from generate_series(1, $2::int) where $1::bigint = 0`
  },
  {
    table: "core.accounts",
    rowsMax: Bounds.tenantAccountsMax,
    owner: Effect.succeed(tenant),
    insert: `insert into core.accounts (id, tenant_id, name) select gen_random_uuid(), $1::uuid, gen_random_uuid()
      from generate_series(1, $2::int)`
  },
  {
    table: "core.memberships",
    rowsMax: Bounds.projectMembershipsMax - 2,
    owner: project,
    insert: `insert into core.memberships (project_id, account_id, role) select $1::bigint, a.id, 'viewer'
      from core.accounts a where a.tenant_id = '${tenant}'
        and not exists (select from core.memberships m where m.project_id = $1::bigint and m.account_id = a.id)
      order by a.id limit $2::int`
  },
  {
    table: "core.plugins",
    rowsMax: Bounds.pluginsMax,
    owner: Effect.succeed(0),
    insert: `insert into core.plugins (name, version, schema_name, provides)
      select gen_random_uuid(), '1', 's', '{}' from generate_series(1, $2::int) where $1::bigint = 0`
  },
  {
    table: "plugin_sandbox.nodes",
    rowsMax: Bounds.nodesMax,
    owner: Effect.succeed(0),
    insert: insertNodes
  }
] as const

const onClone = <A, E, R>(test: Effect.Effect<A, E, R>) =>
  test.pipe(Effect.provide(PostgresProjectStore.layer.pipe(Layer.provideMerge(fixture))))

describe("bounds of tables", () => {
  it.live("FC-15 every table of both schemas has a named bound", () =>
    Effect.gen(function* () {
      const found = yield* rows(
        `select schemaname || '.' || tablename as name from pg_tables
          where schemaname not in ('pg_catalog', 'information_schema')`
      )
      const tables = found.map(({ name }) => String(name)).filter((name) => !boundedByTheCode.test(name))
      assert.deepStrictEqual(tables.toSorted(), Object.keys(boundsOf).toSorted())
      for (const bound of Object.values(boundsOf).flat()) assert.isAbove(bound, 0)
    }).pipe(onClone)
  )

  for (const { insert, owner, rowsMax, table } of refusing) {
    it.live(`FC-15 ${table} takes as many rows as its bound and refuses the next one by name`, () =>
      Effect.gen(function* () {
        yield* rows("insert into core.tenants (id, name) values ($1::uuid, 'bounded')", [tenant])
        yield* rows(
          `insert into core.accounts (id, tenant_id, name) select gen_random_uuid(), $1::uuid, 'member-' || n
            from generate_series(1, $2::int) n where '${table}' = 'core.memberships'`,
          [tenant, Bounds.projectMembershipsMax]
        )
        const whose = yield* owner
        const present = whose === 0 ? Number(yield* value(`select count(*) from ${table}`)) : 0
        yield* rows(insert, [whose, rowsMax - present - 1])
        const before = yield* value(`select count(*) from ${table}`)
        const refused = yield* Effect.flip(rows(insert, [whose, 2]))
        const trigger = `${table.split(".")[1]}_bounded`
        assert.deepInclude(refused, { fault: "refused", state: "HF003", constraint: trigger })
        assert.strictEqual(yield* value(`select count(*) from ${table}`), before, "nothing of it was written")
        yield* rows(insert, [whose, 1])
        assert.strictEqual((yield* Effect.flip(rows(insert, [whose, 1]))).state, "HF003")
      }).pipe(onClone)
    )
  }

  it.live(
    "FC-15 a Project beyond the bound of its tenant is refused, and one of another tenant is made",
    () =>
      Effect.gen(function* () {
        const { caller } = yield* newProject
        const other = yield* newProject
        const projects = yield* ProjectStore
        yield* rows(
          `insert into core.projects (tenant_id, name) select $1::uuid, 'n-' || n from generate_series(1, $2::int) n`,
          [caller.tenant, Bounds.tenantProjectsMax - 2]
        )
        yield* projects.create(caller, "last")
        const refused = yield* Effect.flip(projects.create(caller, "one-more"))
        assert.deepInclude(refused, { code: "projects_full", projectsMax: Bounds.tenantProjectsMax })
        assert.deepInclude(yield* Effect.flip(projects.create(caller, "last")), {
          code: "project_name_taken"
        })
        assert.strictEqual((yield* projects.create(other.caller, "one-more")).name, "one-more")
      }).pipe(onClone),
    60_000
  )

  it.live("FC-15 the daemon's own tenant and account are found though there is room for no other", () =>
    Effect.gen(function* () {
      const projects = yield* ProjectStore
      const caller = yield* projects.bootstrap
      yield* rows(refusing[0].insert, [0, Bounds.tenantsMax - 1])
      yield* rows(refusing[1].insert, [caller.tenant, Bounds.tenantAccountsMax - 1])
      assert.deepStrictEqual(yield* projects.bootstrap, caller)
    }).pipe(onClone)
  )

  it.live("FC-15 a node beyond the bound is refused by a sentence, and one that is known goes on", () =>
    Effect.gen(function* () {
      const store = yield* RuntimeStore
      yield* store.registerNode({ id: nodeHere, name: "here" })
      yield* rows(insertNodes, [0, Bounds.nodesMax - 1])
      const refused = yield* Effect.flip(store.registerNode({ id: NodeId.make(randomUUID()), name: "late" }))
      assert.deepInclude(refused, { code: "nodes_full", nodesMax: Bounds.nodesMax })
      yield* store.registerNode({ id: nodeHere, name: "again" })
      assert.strictEqual(yield* value("select name from nodes where id = $1::uuid", [nodeHere]), "again")
    }).pipe(onClone)
  )
})
