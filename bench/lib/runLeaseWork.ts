/**
 * The stage of P15 and its yardsticks on plain `pg`: a connection a worker, prepared statements, the leanest table and SQL
 * that keep the rules of a run's lease and of a cleanup. Their provider is a function that answers at once.
 */
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { loopPromises } from "./closedLoop.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { type PlainClient, type PlainSettings, plainClients, runPlainly } from "./plainPg.ts"
import { withServerCost } from "./serverCost.ts"

export const tenant = "11111111-0000-4000-8000-000000000001"
export const environment = "22222222-0000-4000-8000-000000000001"
export const provider = "fake"

/** Cleanups of one sweep. */
export const cleanupsMax = 10_000
/** One by one takes its time, so that it is given fewer. */
const cleanupsOneByOneMax = 2_000

/** Rows that the product's contenders stand on, and the tables of the yardsticks. */
export const runLeaseStage: ReadonlyArray<string> = [
  `insert into core.tenants (id, name) values ('${tenant}', 'bench')`,
  `insert into environments (id, name, driver, config)
    values ('${environment}', 'bench', 'sandbox', '{"provider": "${provider}", "image": "bench", "timeoutMs": 60000}')`,
  `create table plain_leases (lease_id uuid primary key, run_id uuid not null, environment_id uuid not null,
    status text not null, provider_lease_id text, acquired_at timestamptz not null default now(),
    released_at timestamptz) with (fillfactor = 75)`,
  `create table plain_cleanups (id bigint generated always as identity primary key, provider_lease_id text not null,
    status text not null default 'pending', claimed_by uuid, receipt text) with (fillfactor = 75)`,
  "create index plain_cleanups_pending on plain_cleanups (id) where status = 'pending'"
]

const emptied = (settings: PlainSettings, table: string) =>
  runPlainly(settings, [`truncate ${table}`, `vacuum ${table}`])

const life = {
  intent: `insert into plain_leases (lease_id, run_id, environment_id, status) values ($1, $2, $3, 'pending')`,
  active: `update plain_leases set status = 'active', provider_lease_id = $2 where lease_id = $1 and status = 'pending'`,
  releasing: "update plain_leases set status = 'releasing' where lease_id = $1 and status = 'active'",
  released:
    "update plain_leases set status = 'released', released_at = now() where lease_id = $1 and status = 'releasing'"
}

const callProvider = async (id: string): Promise<string> => `sandbox://fake/${id}`

const lifeOfLease = async (client: PlainClient): Promise<void> => {
  const id = randomUUID()
  await client.query({ name: "intent", text: life.intent, values: [id, id, environment] })
  const resource = await callProvider(id)
  await client.query({ name: "active", text: life.active, values: [id, resource] })
  await client.query({ name: "releasing", text: life.releasing, values: [id] })
  await callProvider(resource)
  await client.query({ name: "released", text: life.released, values: [id] })
}

/** Intent, outcome, intent, outcome: four durable writes around two calls. */
export const plainLife = (settings: PlainSettings): Contender => ({
  name: "pg, four writes",
  run: (load) =>
    Effect.scoped(
      Effect.flatMap(plainClients(settings, load.workers), (clients) =>
        withServerCost(
          settings,
          loopPromises(load, (worker) => lifeOfLease(clients[worker]!))
        )
      )
    ),
  check: Effect.gen(function* () {
    const { rows } = yield* runPlainly(settings, [
      "select count(*)::int as all, count(*) filter (where status = 'released')::int as released from plain_leases"
    ])
    yield* emptied(settings, "plain_leases")
    const { all, released } = rows[0] ?? {}
    return all === released && all !== 0 ? [] : [`${String(released)} of ${String(all)} leases were released`]
  })
})

const claimText = `with due as (
    select id from plain_cleanups where status = 'pending' and claimed_by is null order by id limit $2 for update skip locked)
  update plain_cleanups p set claimed_by = $1 from due where p.id = due.id returning p.id, p.provider_lease_id`

const settleText = `update plain_cleanups p set status = 'expired', receipt = e.receipt
  from unnest($1::bigint[], $2::text[]) as e(id, receipt)
  where p.id = e.id and p.claimed_by = $3 and p.status = 'pending'`

const sweepPlainly = async (client: PlainClient, page: number): Promise<number> => {
  const claimant = randomUUID()
  let done = 0
  for (;;) {
    const { rows } = await client.query({ name: "claim", text: claimText, values: [claimant, page] })
    if (rows.length === 0) return done
    const receipts = await Promise.all(rows.map((row) => callProvider(String(row["provider_lease_id"]))))
    const ids = rows.map((row) => row["id"])
    await client.query({ name: "settle", text: settleText, values: [ids, receipts, claimant] })
    done += rows.length
  }
}

/** The time of one sweep over everything, and what one cleanup of it costs. */
export const sweepFigures = (cleanups: number, sweep: Effect.Effect<unknown, unknown>) =>
  Effect.gen(function* () {
    const cpu = process.cpuUsage()
    const begun = performance.now()
    yield* sweep
    const seconds = (performance.now() - begun) / 1_000
    const { system, user } = process.cpuUsage(cpu)
    const figures: Figures = {
      operations: cleanups,
      perSecond: cleanups / seconds,
      clientCpuMicros: (user + system) / cleanups
    }
    return figures
  })

/** Pages of so many rows, each claimed by one statement and settled by one. */
export const plainSweep = (settings: PlainSettings, page: number): Contender => {
  const cleanups = page === 1 ? cleanupsOneByOneMax : cleanupsMax
  return {
    name: page === 1 ? "pg, one by one" : `pg, batches of ${page}`,
    run: (load: Load) =>
      Effect.gen(function* () {
        yield* runPlainly(settings, [
          `insert into plain_cleanups (provider_lease_id) select 's' || n from generate_series(1, ${cleanups}) n`,
          "vacuum analyze plain_cleanups"
        ])
        const clients = yield* plainClients(settings, load.workers)
        const sweep = Effect.tryPromise(() =>
          Promise.all(clients.map((client) => sweepPlainly(client, page)))
        )
        return yield* sweepFigures(cleanups, sweep)
      }).pipe(Effect.scoped),
    check: Effect.gen(function* () {
      const { rows } = yield* runPlainly(settings, [
        "select count(*)::int as done from plain_cleanups where status = 'expired' and receipt is not null"
      ])
      yield* emptied(settings, "plain_cleanups")
      return rows[0]?.["done"] === cleanups
        ? []
        : [`${String(rows[0]?.["done"])} of ${cleanups} cleanups were done`]
    })
  }
}
