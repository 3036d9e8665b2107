/** Plans of the statements on leases, at a size where a wrong one shows: each walk is by its index. Source: FC-15. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLease } from "../../../src/domain/environments/EnvironmentLease.ts"
import type { AgentId, EnvironmentId, RunId, TaskId, TenantId } from "../../../src/domain/Identity.ts"
import { PluginDb, PluginTx, type Query } from "../../../src/domain/persistence/PluginDb.ts"
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
  ["pruneEnded", /environment_leases_over/]
]

const id = (ending: number): string => uuid(900_000 + ending)
const inJson = (list: ReadonlyArray<object>): string => JSON.stringify(list)
const claimed = { attempt: "one", providerLeaseId: "s602", run: null, metadata: {}, remove: [], isTry: false }

/** Functions on leases whose plans are made once, each about one row or two, with what it reads of the table at most. */
const functions: ReadonlyArray<readonly [name: string, text: string, given: ReadonlyArray<string>]> = [
  [
    "release",
    "release_environment_leases($1::text::jsonb, true)",
    [inJson([{ lease: id(1), status: "released", metadata: {} }])]
  ],
  [
    "claim",
    "claim_environment_cleanups($1::text::jsonb, true)",
    [inJson([{ lease: id(602), attempt: "one", from: ["pending_cleanup"], refuseLiveRun: true, marker: {} }])]
  ],
  [
    "settle",
    "settle_environment_cleanups($1::text::jsonb, true)",
    [inJson([{ lease: id(602), ...claimed, status: "expired" }])]
  ],
  ["acquire", "acquire_environment_leases($1::text::jsonb)", [inJson([])]],
  ["runs", "environment_leases_of_runs(array[$1::uuid])", [id(3)]],
  ["due", "due_environment_cleanups(0, to_timestamp(0), $1::uuid, 'infinity', 20)", [uuid(0)]]
]

describe("plans of environment leases", () => {
  it.live(
    "FC-15 functions come to their rows by the ids of these and not through all of a status, also where they were planned on an empty table",
    () =>
      Effect.gen(function* () {
        const db = yield* PluginDb
        const counts = yield* db.transaction(
          "test.functions",
          Effect.gen(function* () {
            const tx = yield* PluginTx
            const run = (text: string, parameters: ReadonlyArray<unknown> = []) =>
              tx.query({ operation: "test.functions", text, parameters })
            const readRows = run(
              `select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables
                where relid = 'environment_leases'::regclass`
            ).pipe(Effect.map(([row]) => Number(row?.["rows"])))
            const callAll = Effect.forEach(functions, ([name, text, given]) =>
              Effect.gen(function* () {
                const before = yield* readRows
                const answered = yield* run(`select * from ${text}`, given)
                return [name, answered.length, (yield* readRows) - before] as const
              })
            )
            yield* callAll
            yield* run(
              `insert into environment_leases (id, tenant_id, run_id, status, provider_lease_id, released_at, cleanup_due_at)
                select ('00000000-0000-4000-8000-' || lpad((900000 + n)::text, 12, '0'))::uuid, gen_random_uuid(),
                  case when n <= 600 then ('00000000-0000-4000-8000-' || lpad((900000 + n)::text, 12, '0'))::uuid end,
                  case when n <= 600 then 'active' else 'pending_cleanup' end, 's' || n,
                  case when n > 600 then now() end, case when n > 600 then now() - interval '1 hour' end
                from generate_series(1, 1200) n`
            )
            return yield* callAll
          })
        )
        for (const [name, answered, rows] of counts) {
          assert.strictEqual(answered, { acquire: 0, due: 20 }[name as string] ?? 1, name)
          assert.isAtMost(rows, name === "due" ? 30 : 8, name)
        }
      }).pipe(Effect.scoped, Effect.provide(clone(2)))
  )

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
