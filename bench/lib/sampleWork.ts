/**
 * P9's stage and yardsticks: running sandboxes that are sampled every ten seconds of their own time, a sixth of them in
 * each second of the minute, with eight metrics each. Every contender compares and sets the same row of `runtimes`; the
 * yardsticks have history tables of their own, with the columns and indexes of the product's and room for upserts.
 */
import * as Effect from "effect/Effect"
import { metrics } from "../../src/domain/history/History.ts"
import { loopPromises } from "./closedLoop.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { type PlainSettings, plainClients, runPlainly } from "./plainPg.ts"
import { withServerCost } from "./serverCost.ts"

export const sandboxes = 2_000
/** How many first samples are recorded at a time, before anything is timed. */
export const firstBatch = 250
const firstMillis = Date.UTC(2026, 0, 1)
/** No supervisor measures all of them; one is left out here. */
export const measuredMetrics = metrics.filter((metric) => metric !== "net_tx_bytes")

export interface Measured {
  readonly project: number
  readonly startedAtMillis: number
  readonly values: ReadonlyArray<number>
}

/** The next sample of each sandbox, and the sum of all that was drawn. */
export class Sampler {
  drawn = 0
  sum = 0n
  private readonly ticks = new Map<number, number>()
  private readonly cursors = new Map<number, number>()

  /** A first sample of every sandbox, so that what is timed finds minutes and hours that are being filled. */
  first(count: number): ReadonlyArray<ReadonlyArray<Measured>> {
    return Array.from({ length: sandboxes / count }, () => this.next(0, 1, count))
  }

  /** Samples of the worker's own sandboxes, each of another one. */
  next(worker: number, workers: number, count: number): ReadonlyArray<Measured> {
    const own = Math.floor(sandboxes / workers)
    const from = this.cursors.get(worker) ?? 0
    this.cursors.set(worker, from + count)
    return Array.from({ length: count }, (_, at) => this.of(1 + worker + workers * ((from + at) % own)))
  }

  private of(project: number): Measured {
    const tick = this.ticks.get(project) ?? project % 6
    this.ticks.set(project, tick + 1)
    const values = measuredMetrics.map((_, at) => (tick * 7_919 + project * 104_729 + at) % 1_000_000_007)
    this.drawn += 1
    for (const value of values) this.sum += BigInt(value)
    return { project, startedAtMillis: firstMillis + tick * 10_000, values }
  }
}

const tenant = "11111111-0000-4000-8000-000000000001"
const node = "33333333-0000-4000-8000-000000000001"

/** A recipe as long as a usual one, since it stands in the row that every sample writes. */
const recipe = JSON.stringify({
  generation: 1,
  image: "x".repeat(60),
  argv: ["y".repeat(120)],
  disks: ["z".repeat(120)]
})

const upsertTable = (name: string, fillfactor: number): string => `create table ${name} (
  id bigint generated always as identity unique, project_id bigint not null, metric smallint not null,
  bucket timestamptz(0) not null, minimum bigint not null, maximum bigint not null, total bigint not null,
  samples int not null, primary key (project_id, metric, bucket)) with (fillfactor = ${fillfactor})`

export const sampleRows: ReadonlyArray<string> = [
  `insert into core.tenants (id, name) values ('${tenant}', 'bench')`,
  `insert into nodes (id, name) values ('${node}', 'bench')`,
  `insert into core.projects (tenant_id, name)
     select '${tenant}', 'project-' || number from generate_series(1, ${sandboxes}) number`,
  `insert into runtimes (project_id, node_id, sandbox_id, desired, observed, recipe)
     select id, '${node}', 'sb-' || gen_random_uuid(), 'running', 'running', '${recipe}' from core.projects order by id`,
  upsertTable("bench_minutes", 85),
  upsertTable("bench_hours", 70),
  "create index on bench_minutes (bucket)",
  "create index on bench_hours (bucket)",
  "vacuum analyze"
]

const clean = [
  "truncate resource_samples, resource_rollups, bench_minutes, bench_hours",
  `update runtimes set sample_epoch = null, sample_started_at = null, readings = null, measured = null,
    open_minute = null, minute = null, open_hour = null, hour = null, closed_minute = null`,
  "vacuum runtimes"
]

const sumsText = (minutes: string, hours: string): string => `
select (select coalesce(sum(total), 0)::text from ${minutes}) as minutes,
  (select coalesce(sum(total), 0)::text from ${hours}) as hours,
  (select coalesce(sum(samples), 0)::int from ${minutes} where metric::text in ('pids', '9')) as samples`

/** Runs with a sampler of its own, from empty tables; then the history's sums have to be those of the samples. */
export const sampleContender = (
  name: string,
  settings: PlainSettings,
  tables: { readonly minutes: string; readonly hours: string },
  run: (load: Load, sampler: Sampler) => Effect.Effect<Figures, unknown>,
  recheck: Effect.Effect<ReadonlyArray<string>, unknown> = Effect.succeed([])
): Contender => {
  let sampler = new Sampler()
  return {
    name,
    run: (load) =>
      Effect.gen(function* () {
        sampler = new Sampler()
        yield* runPlainly(settings, clean)
        return yield* run(load, sampler)
      }),
    check: Effect.gen(function* () {
      const stale = yield* recheck
      const { rows } = yield* runPlainly(settings, [sumsText(tables.minutes, tables.hours)])
      const { hours, minutes, samples } = rows[0] ?? {}
      const wanted = String(sampler.sum)
      return minutes === wanted && hours === wanted && samples === sampler.drawn
        ? stale
        : [
            ...stale,
            `${sampler.drawn} samples of ${wanted} in sum left ${samples} of ${minutes}, hours ${hours}`
          ]
    })
  }
}

/** Figures of operations that were so many samples each. */
export const perSample = (figures: Figures, samples: number): Figures => ({
  ...figures,
  operations: (figures["operations"] ?? Number.NaN) * samples,
  operationsAll: (figures["operationsAll"] ?? Number.NaN) * samples,
  perSecond: (figures["perSecond"] ?? Number.NaN) * samples,
  clientCpuMicros: (figures["clientCpuMicros"] ?? Number.NaN) / samples
})

const upserted = (table: string, bucket: string, from: string): string => `
insert into ${table} as h (project_id, metric, bucket, minimum, maximum, total, samples)
  select project_id, metric, ${bucket}, value, value, value, 1 from ${from} order by project_id, metric
on conflict (project_id, metric, bucket) do update set
  minimum = least(h.minimum, excluded.minimum), maximum = greatest(h.maximum, excluded.maximum),
  total = h.total + excluded.total, samples = h.samples + excluded.samples`

const placeOf = (at: number): number => metrics.indexOf(measuredMetrics[at]!) + 1

/** Compare and set of $1..$4 (arrays of Projects and starts, Project by Project and value by value), then two upserts. */
const upsertsText = `
with cas as (
  update runtimes r set sample_started_at = given.at, readings = given.figures::bigint[]
  from unnest($1::bigint[], $2::timestamptz[], $3::text[]) as given (project_id, at, figures)
  where r.project_id = given.project_id and r.generation = 1 and r.refresh_epoch = 0
    and (r.sample_started_at is null or r.sample_started_at < given.at)
  returning r.project_id
), figures as materialized (
  select given.project_id, given.metric, given.at, given.value
  from unnest($4::bigint[], $5::smallint[], $6::timestamptz[], $7::bigint[]) as given (project_id, metric, at, value)
    join cas on cas.project_id = given.project_id
), minutes as (${upserted("bench_minutes", "date_bin('1 minute', at, 'epoch')", "figures")}
), hours as (${upserted("bench_hours", "date_bin('1 hour', at, 'epoch')", "figures")}
)
select project_id from cas`

const parametersOf = (samples: ReadonlyArray<Measured>): ReadonlyArray<unknown> => {
  const values = samples.flatMap(({ project, startedAtMillis, values: figures }) =>
    figures.map((value, at) => ({
      project,
      metric: placeOf(at),
      at: new Date(startedAtMillis),
      value
    }))
  )
  return [
    samples.map(({ project }) => project),
    samples.map(({ startedAtMillis }) => new Date(startedAtMillis)),
    samples.map((sample) => `{${sample.values.join(",")}}`),
    values.map(({ project }) => project),
    values.map(({ metric }) => metric),
    values.map(({ at }) => at),
    values.map(({ value }) => value)
  ]
}

/** Plain `pg`, one statement for so many samples, with upserts into minutes and hours. */
export const plainUpserts = (name: string, settings: PlainSettings, batch: number): Contender =>
  sampleContender(name, settings, { minutes: "bench_minutes", hours: "bench_hours" }, (load, sampler) =>
    Effect.scoped(
      Effect.gen(function* () {
        const clients = yield* plainClients(settings, load.workers)
        const record = async (worker: number, samples: ReadonlyArray<Measured>) => {
          const values = parametersOf(samples)
          const { rowCount } = await clients[worker]!.query({ name: "upserts", text: upsertsText, values })
          if (rowCount !== samples.length)
            throw new Error(`${rowCount} of ${samples.length} samples were accepted`)
        }
        for (const samples of sampler.first(firstBatch)) yield* Effect.promise(() => record(0, samples))
        const measured = loopPromises(load, (worker) =>
          record(worker, sampler.next(worker, load.workers, batch))
        )
        return yield* withServerCost(
          settings,
          Effect.map(measured, (figures) => perSample(figures, batch))
        )
      })
    )
  )
