/** Plans of the statements on leases, at a size where a wrong one shows: each walk is by its index. Source: FC-15. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLease } from "../../../src/domain/environments/EnvironmentLease.ts"
import type { AgentId, EnvironmentId, RunId, TaskId, TenantId } from "../../../src/domain/Identity.ts"
import { PluginDb, type Query } from "../../../src/domain/persistence/PluginDb.ts"
import { stores } from "../../domain/runLeases/leaseStores.ts"
import { sql } from "../../domain/runLeases/rawRows.ts"
import { clone } from "../../support/clone.ts"

const uuid = (ending: number): string => `00000000-0000-4000-8000-${String(ending).padStart(12, "0")}`

/** A hundred environments of ten tenants with 30,000 leases: most are over, a few of each other status. */
const fill = Effect.gen(function* () {
  yield* sql(
    `insert into environments (id, name, driver)
      select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'e' || n, 'ssh' from generate_series(0, 99) n`
  )
  yield* sql(
    `insert into environment_leases (id, tenant_id, environment_id, task_id, execution_workspace_id, run_id, status,
        lease_policy, provider, provider_lease_id, released_at, cleanup_due_at, metadata)
      select gen_random_uuid(), u.tenant, u.environment, u.other, u.other, u.other, s.status, 'reuse_by_environment', 'p',
        's' || n, case when s.status <> 'active' then now() - make_interval(mins => n) end,
        case when s.status = 'pending_cleanup' then now() - make_interval(mins => n) end,
        jsonb_build_object('agentId', u.other)
      from generate_series(1, 30000) n,
        lateral (select case when n % 50 = 0 then 'active' when n % 50 = 1 then 'retained' when n % 50 = 2 then
          'pending_cleanup' else 'expired' end as status) s,
        lateral (select ('00000000-0000-4000-8000-' || lpad((n % 10)::text, 12, '0'))::uuid as tenant,
          ('00000000-0000-4000-8000-' || lpad((n % 100)::text, 12, '0'))::uuid as environment,
          ('00000000-0000-4000-8000-' || lpad((n / 7)::text, 12, '0'))::uuid as other) u`
  )
  yield* sql("analyze environment_leases")
})

const planOf = Effect.fnUntraced(function* ({ parameters = [], text }: Query) {
  const literal = (parameter: unknown): string =>
    parameter === null ? "null" : Array.isArray(parameter) ? "'{}'" : `'${String(parameter)}'`
  const plain = text.replace(/\$(\d+)/g, (_, place) => literal(parameters[Number(place) - 1]))
  const plan = yield* sql(`explain ${plain}`)
  return plan.map((row) => row["QUERY PLAN"]).join("\n")
})

/** Reads and the index by which each has to come. */
const expected: ReadonlyArray<readonly [operation: string, index: RegExp]> = [
  ["heldByRun", /environment_leases_by_run/],
  ["listLeases", /environment_leases_by_run/],
  ["listLeases", /environment_leases_by_environment/],
  ["listLeases", /environment_leases_by_tenant/],
  ["reusable", /environment_leases_(unfinished|of_workspace)/],
  ["destroyable", /environment_leases_of_task/],
  ["destroyable", /environment_leases_of_workspace/],
  ["unfinishedOf", /environment_leases_unfinished/],
  ["ofAgent", /environment_leases_of_agent/],
  ["hasOtherOwner", /environment_leases_held/],
  ["abandoned", /environment_leases_held/],
  ["dueCleanups", /environment_leases_owed/],
  ["pruneEnded", /environment_leases_over/]
]

describe("plans of environment leases", () => {
  it.live(
    "FC-15 no statement walks through the whole table",
    () => {
      const sent: Array<Query> = []
      const noting = Layer.effect(
        PluginDb,
        Effect.map(PluginDb, (db) =>
          PluginDb.of({ ...db, query: (query) => Effect.suspend(() => (sent.push(query), db.query(query))) })
        )
      )
      return Effect.gen(function* () {
        yield* fill
        const leases = yield* EnvironmentLeaseStore
        const tenant = uuid(1) as TenantId
        const environment = uuid(7) as EnvironmentId
        const other = uuid(1_000)
        sent.length = 0
        yield* leases.heldByRun(other as RunId)
        yield* leases.listLeases({ run: other as RunId })
        yield* leases.listLeases({ environment })
        yield* leases.listLeases({ tenant })
        yield* leases.reusable({ tenant, environment, executionWorkspace: null, task: other as TaskId })
        yield* leases.destroyable({ tenant, task: other as TaskId })
        yield* leases.destroyable({ tenant, executionWorkspace: other as never })
        yield* leases.unfinishedOf(environment)
        yield* leases.ofAgent(other as AgentId)
        const held = { id: uuid(1), provider: "p", providerLeaseId: "s50", environment }
        yield* leases.hasOtherOwner(held as EnvironmentLease)
        yield* leases.abandoned
        yield* leases.dueCleanups({ backoffMillis: 0 })
        yield* leases.pruneEnded
        const all = [...sent]
        assert.deepStrictEqual(
          all.map(({ operation }) => operation),
          expected.map(([operation]) => `EnvironmentLeaseStore.${operation}`)
        )
        for (const [place, query] of all.entries()) {
          const plan = yield* planOf(query)
          assert.match(plan, expected[place]?.[1] ?? /^$/, `${query.operation}\n${plan}`)
          assert.notMatch(plan, /Seq Scan on environment_leases/, `${query.operation}\n${plan}`)
        }
      }).pipe(
        Effect.scoped,
        Effect.provide(stores.pipe(Layer.provideMerge(noting), Layer.provideMerge(clone(4))))
      )
    },
    30_000
  )
})
