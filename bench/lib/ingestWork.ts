/** P10's contenders: closed minutes of a hundred runtimes in one transaction, and the least that rows can cost. */
import * as Effect from "effect/Effect"
import { insertClosedText, mergeClosedText } from "../../src/infra/postgres/closedBuckets.ts"
import { pluginSchema } from "./admission.ts"
import { loopEffects, loopPromises, openConnections } from "./closedLoop.ts"
import { copyIn } from "./copyIn.ts"
import { counted } from "./counted.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { handleOn, sampledOut } from "./handles.ts"
import { type PlainSettings, plainClients, runPlainly } from "./plainPg.ts"
import { perSample } from "./sampleWork.ts"

const runtimes = 100
const metricsEach = 8
export const rowsEach = runtimes * metricsEach
const firstMillis = Date.UTC(2026, 0, 1)

export const rawTable = `create table bench_rows (project_id bigint not null, metric smallint not null,
  bucket timestamptz(0) not null, minimum bigint not null, maximum bigint not null, total bigint not null, samples int not null)`

const valueAt = (place: number, minute: number): number => (minute * 7_919 + place * 104_729) % 1_000_003

/** One minute of a worker's runtimes as arrays: six samples of each metric, one not measured. */
const closedMinutes = (worker: number, minute: number) => {
  const figures = (place: number) => {
    const value = valueAt(place, minute)
    return `${value},${value + 9},${6 * value},NULL`
  }
  const bucket = `{6,${Array.from({ length: metricsEach }, (_, at) => figures(at)).join(",")},NULL,NULL,NULL,NULL}`
  return [
    Array.from({ length: runtimes }, (_, at) => BigInt(1 + worker * runtimes + at)),
    Array.from({ length: runtimes }, () => BigInt(firstMillis + minute * 60_000)),
    Array.from({ length: runtimes }, () => bucket)
  ]
}

const copyLines = (worker: number, minute: number): string => {
  const bucket = new Date(firstMillis + minute * 60_000).toISOString()
  const lines: Array<string> = []
  for (let at = 0; at < runtimes; at++) {
    for (let place = 0; place < metricsEach; place++) {
      const value = valueAt(place, minute)
      const project = 1 + worker * runtimes + at
      lines.push(`${project}\t${place + 1}\t${bucket}\t${value}\t${value + 9}\t${6 * value}\t6\n`)
    }
  }
  return lines.join("")
}

const ingestContender = (
  name: string,
  settings: PlainSettings,
  table: string,
  run: (load: Load) => Effect.Effect<Figures, unknown>
): Contender =>
  counted(
    name,
    (load) =>
      Effect.gen(function* () {
        yield* runPlainly(settings, [`truncate ${table}`])
        return perSample(yield* run(load), rowsEach)
      }),
    (all) =>
      Effect.gen(function* () {
        const { rows } = yield* runPlainly(settings, [
          `select count(*)::int as rows, count(*) filter (where maximum = minimum + 9 and total = 6 * minimum and samples = 6)::int as whole from ${table}`
        ])
        const { rows: found, whole } = rows[0] ?? {}
        return found === all && whole === all
          ? []
          : [`${all} rows left ${found} rows, ${whole} of them whole`]
      })
  )

/** The ceiling: COPY into a table without an index. */
export const plainCopy = (settings: PlainSettings): Contender =>
  ingestContender("pg, COPY without an index", settings, "bench_rows", (load) =>
    Effect.scoped(
      Effect.gen(function* () {
        const clients = yield* plainClients(settings, load.workers)
        return yield* loopPromises(load, (worker, call) =>
          copyIn(clients[worker]!, "copy bench_rows from stdin", copyLines(worker, call))
        )
      })
    )
  )

/** The arrays are read once, as those of the runtimes' rows are. */
const source = `with closed as materialized (
    select project_id, timestamptz 'epoch' + started * interval '1 millisecond', figures::bigint[]
    from unnest($1::bigint[], $2::bigint[], $3::text[]) as given (project_id, started, figures))
  select * from closed`

const productInsert = (name: string, settings: PlainSettings, text: string): Contender =>
  ingestContender(name, settings, "resource_samples", (load) =>
    Effect.gen(function* () {
      const db = yield* handleOn(settings, pluginSchema, load.workers)
      yield* openConnections(load, (hold) => db.query({ operation: "bench.open", text: hold }))
      return yield* loopEffects(load, (worker, call) =>
        db.query({ operation: "bench.ingest", text, parameters: closedMinutes(worker, call) })
      )
    }).pipe(sampledOut, Effect.scoped)
  )

/** What a batch of samples does with the minutes that it closes. */
export const closedInsert = (settings: PlainSettings): Contender =>
  productInsert("closed minutes", settings, insertClosedText("resource_samples", source))

/** The same where each may be there already: what is spared. */
export const closedMerge = (settings: PlainSettings): Contender =>
  productInsert("closed minutes, merged", settings, mergeClosedText("resource_samples", source))
