/**
 * The stage of P7 and P8, and their yardsticks on plain `pg`: a connection a worker, prepared statements, the leanest
 * SQL of a lease's life. Each worker stands for a process with a Project of its own, and the table must be empty after.
 */
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { loopPromises } from "./closedLoop.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { type PlainClient, type PlainSettings, plainClients, runPlainly } from "./plainPg.ts"

export const workersMax = 16
/** Leases of one process in the benchmark of heartbeats. */
export const heartbeatLeases = 1_024
export const sandbox = "sb-44444444-0000-4000-8000-000000000001"
const node = "33333333-0000-4000-8000-000000000001"
const bootId = "55555555-0000-4000-8000-000000000001"

/** The written identity of the process that a worker stands for. */
export const processOf = (worker: number): string =>
  `66666666-0000-4000-8000-${String(worker).padStart(12, "0")}/${node}/${bootId}/${worker + 1}/1`

/** What a run counts: claims that were won, and those whose holder still had them when he released them. */
export interface Tally {
  won: number
  released: number
}

export const newTally = (): Tally => ({ won: 0, released: 0 })

/** Two winners of one repository at a time would show as a release that finds nothing: only one row can be there. */
export const wrongTally = ({ released, won }: Tally): ReadonlyArray<string> =>
  won > 0 && won === released
    ? []
    : [`${won} claims were won and ${released} of them were there to be released`]

/** A contender that must leave both tables empty; `wrong` looks at what the run itself has counted. */
export const leaseContender = (
  name: string,
  settings: PlainSettings,
  run: (load: Load) => Effect.Effect<Figures, unknown>,
  wrong: () => ReadonlyArray<string> = () => []
): Contender => ({
  name,
  run,
  check: Effect.gen(function* () {
    const { rows } = yield* runPlainly(settings, [
      "select (select count(*) from execution_leases)::int as leases, (select count(*) from repository_claims)::int as claims"
    ])
    yield* runPlainly(settings, ["truncate execution_leases, repository_claims", "vacuum analyze runtimes"])
    const { claims, leases } = rows[0] ?? {}
    return [
      ...wrong(),
      ...(claims === 0 && leases === 0
        ? []
        : [`${String(leases)} leases and ${String(claims)} claims are left`])
    ]
  })
})

/** Drives plain `pg` with a client for each worker. */
const onClients =
  (settings: PlainSettings, act: (client: PlainClient, worker: number, call: number) => Promise<unknown>) =>
  (load: Load) =>
    Effect.scoped(
      Effect.flatMap(plainClients(settings, load.workers), (clients) =>
        loopPromises(load, (worker, call) => act(clients[worker]!, worker, call))
      )
    )

const insertText = `insert into execution_leases (id, project_id, generation, sandbox_id, process, label)
  values ($1::uuid, $2::bigint, 1, '${sandbox}', $3::text, 'sh')`

const heartbeatText = `update execution_leases l set heartbeat_at = now() where l.id = $1::uuid and l.process = $2
  and l.cancel <> 'verified' and exists (select from runtimes r
    where r.project_id = $3::bigint and r.generation = 1 and r.observed <> 'deleted')`

const releaseText = "delete from execution_leases where id = $1::uuid and process = $2 and cancel = 'none'"

/** Insert, heartbeat and release of one lease: three statements, three waits. */
export const plainLease = (settings: PlainSettings): Contender =>
  leaseContender(
    "pg, three statements",
    settings,
    onClients(settings, async (client, worker) => {
      const id = randomUUID()
      const process = processOf(worker)
      await client.query({ name: "insert", text: insertText, values: [id, worker + 1, process] })
      await client.query({ name: "heartbeat", text: heartbeatText, values: [id, process, worker + 1] })
      await client.query({ name: "release", text: releaseText, values: [id, process] })
    })
  )

/** The id of one of a process's leases that are only renewed. */
export const leaseIdOf = (worker: number, lease: number): string =>
  `77777777-0000-4000-8000-${String(worker * heartbeatLeases + lease).padStart(12, "0")}`

/** Gives each worker its leases before a run, and takes them away behind it. */
export const withLeases =
  (settings: PlainSettings, run: (load: Load) => Effect.Effect<Figures, unknown>) => (load: Load) =>
    runPlainly(settings, [
      ...Array.from(
        { length: load.workers },
        (_, worker) => `insert into execution_leases (id, project_id, generation, sandbox_id, process, label)
          select ('77777777-0000-4000-8000-' || lpad((${worker * heartbeatLeases} + n)::text, 12, '0'))::uuid,
            ${worker + 1}, 1, '${sandbox}', '${processOf(worker)}', 'sh' from generate_series(0, ${heartbeatLeases - 1}) n`
      ),
      "vacuum analyze execution_leases"
    ]).pipe(
      Effect.andThen(run(load)),
      Effect.ensuring(Effect.ignore(runPlainly(settings, ["truncate execution_leases"])))
    )

/** One statement a lease. */
export const plainHeartbeats = (settings: PlainSettings): Contender =>
  leaseContender(
    "pg, one by one",
    settings,
    withLeases(
      settings,
      onClients(settings, async (client, worker, call) => {
        const { rowCount } = await client.query({
          name: "heartbeat",
          text: heartbeatText,
          values: [leaseIdOf(worker, call % heartbeatLeases), processOf(worker), worker + 1]
        })
        if (rowCount !== 1) throw new Error(`${String(rowCount)} leases were renewed by one heartbeat`)
      })
    )
  )

const claimText = `insert into repository_claims (project_id, repository, id, generation, sandbox_id, process)
  values ($1::bigint, 'app', $2::uuid, 1, '${sandbox}', $3::text) on conflict (project_id, repository) do nothing`

const unclaimText =
  "delete from repository_claims where project_id = $1::bigint and repository = 'app' and id = $2::uuid"

/** Claim and, where it was won, release; `projectOf` says whose repository a worker claims. */
export const plainClaims = (settings: PlainSettings, projectOf: (worker: number) => number): Contender => {
  let tally = newTally()
  const asked = new Map<number, string>()
  const run = onClients(settings, async (client, worker) => {
    const id = asked.get(worker) ?? randomUUID()
    asked.set(worker, id)
    const project = projectOf(worker)
    const { rowCount } = await client.query({
      name: "claim",
      text: claimText,
      values: [project, id, processOf(worker)]
    })
    if (rowCount === 0) return
    tally.won += 1
    asked.delete(worker)
    const left = await client.query({ name: "release", text: unclaimText, values: [project, id] })
    tally.released += left.rowCount ?? 0
  })
  return leaseContender(
    "pg, on conflict",
    settings,
    (load) =>
      Effect.suspend(() => {
        tally = newTally()
        return run(load)
      }),
    () => wrongTally(tally)
  )
}
