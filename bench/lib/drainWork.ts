/**
 * The stage of P4: 10,000 queued operations, one a Project, since a Project has one live operation. Every Project has
 * as many settled receipts as are kept, and every tenth an older one that owes a machine and must stay.
 */
import * as Effect from "effect/Effect"
import { receiptsKeptMin } from "../../src/domain/Bounds.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { type PlainSettings, runPlainly } from "./plainPg.ts"
import { withServerCost } from "./serverCost.ts"

/** Operations of one run. */
export const drained = 10_000
const owingEvery = 10

/** Once for all runs: each leaves as many receipts as it found. */
export const drainRows: ReadonlyArray<string> = [
  `insert into runtime_operations (id, project_id, initiator, action, request_key, generation, state, claim_sequence,
      settled_at, owed)
    select gen_random_uuid(), project, 'user', 'start', 'owing', 1, 'succeeded', 1, now(), '{sb/1}'
    from generate_series(1, ${drained}, ${owingEvery}) project`,
  `insert into runtime_operations (id, project_id, initiator, action, request_key, generation, state, claim_sequence,
      settled_at)
    select gen_random_uuid(), project, 'user', 'start', 'before-' || number, 1, 'succeeded', 1, now()
    from generate_series(1, ${receiptsKeptMin}) number, generate_series(1, ${drained}) project`
]

/** Before each run. */
const queueRows: ReadonlyArray<string> = [
  `with queued as (
    insert into runtime_operations (id, project_id, initiator, action, request_key, generation)
      select gen_random_uuid(), project, 'user', 'start', 'key-' || gen_random_uuid(), 1
      from generate_series(1, ${drained}) project returning project_id, row_id
  ) insert into live_operations (project_id, row_id) select project_id, row_id from queued`,
  "vacuum analyze runtime_operations",
  "vacuum analyze live_operations"
]

const found = `select (select count(*) from live_operations)::int as live,
  count(*) filter (where state <> 'succeeded')::int as others,
  count(*) filter (where owed <> '{}')::int as owing,
  (select count(*) from (select from runtime_operations where owed = '{}' group by project_id
    having count(*) <> ${receiptsKeptMin}) untrimmed)::int as untrimmed
  from runtime_operations`

/** Whether a drain has left what it should: nothing live, the newest receipts of each Project, and those that owe. */
export const drainFaults = (row: Readonly<Record<string, unknown>>): ReadonlyArray<string> => {
  const { live, others, owing, untrimmed } = row
  const whole = live === 0 && others === 0 && untrimmed === 0 && owing === drained / owingEvery
  return whole
    ? []
    : [
        `${live} operations are live, ${others} have not succeeded, ${untrimmed} Projects are not trimmed and ${owing} receipts owe a machine`
      ]
}

/** What a drain from its begin to its end was. */
export const drainFigures = (millis: number, cpu: NodeJS.CpuUsage): Figures => ({
  operationsAll: drained,
  perSecond: drained / (millis / 1_000),
  clientCpuMicros: (cpu.user + cpu.system) / drained
})

/** Times `drain` over a full queue, and what it costs the server; what fills the queue is not counted. */
export const timedDrain = <E, R>(settings: PlainSettings, drain: Effect.Effect<unknown, E, R>) =>
  withServerCost(
    settings,
    Effect.suspend(() => {
      const cpu = process.cpuUsage()
      const begun = performance.now()
      return Effect.map(drain, () => drainFigures(performance.now() - begun, process.cpuUsage(cpu)))
    })
  )

/** A contender on the product's schema. */
export const drainContender = (
  name: string,
  settings: PlainSettings,
  drain: (load: Load) => Effect.Effect<Figures, unknown>
): Contender => ({
  name,
  run: (load) => Effect.andThen(runPlainly(settings, queueRows), drain(load)),
  check: Effect.map(runPlainly(settings, [found]), ({ rows }) => drainFaults(rows[0] ?? {}))
})
