/**
 * The stage of P1 and its yardsticks: provisioned runtimes that are asked to start, one call a Project, since a Project
 * has one live operation. Every contender reaches the same SQL function and is checked by the rows it left.
 */
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import * as Path from "node:path"
import { loopPromises } from "./closedLoop.ts"
import { counted } from "./counted.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { pgbench } from "./pgbench.ts"
import { type PlainSettings, plainClients, runPlainly } from "./plainPg.ts"

export const tenant = "11111111-0000-4000-8000-000000000001"
export const account = "22222222-0000-4000-8000-000000000001"
export const node = "33333333-0000-4000-8000-000000000001"

/** Projects that a run of so many seconds can need at the most: each admits once. */
export const projectsFor = (seconds: number): number => Math.ceil(14_000 * Math.max(1, 1.3 * seconds))

/** One tenant, one administrator, and Projects with a stopped machine each. */
export const admissionRows = (projects: number): ReadonlyArray<string> => [
  `insert into core.tenants (id, name) values ('${tenant}', 'bench')`,
  `insert into core.accounts (id, tenant_id, name, administrator) values ('${account}', '${tenant}', 'bench', true)`,
  `insert into nodes (id, name) values ('${node}', 'bench')`,
  `insert into core.projects (tenant_id, name)
     select '${tenant}', 'project-' || number from generate_series(1, ${projects}) number`,
  `insert into runtimes (project_id, node_id, sandbox_id, desired, observed, recipe)
     select id, '${node}', 'sb-' || gen_random_uuid(), 'stopped', 'stopped', jsonb_build_object('generation', 1)
     from core.projects`,
  "create sequence bench_projects",
  "vacuum analyze"
]

/** Keeps for the check how many admissions a run says that it made. */
export const admissionContender = (
  name: string,
  settings: PlainSettings,
  run: (load: Load) => Effect.Effect<Figures, unknown>
): Contender =>
  counted(name, run, (all) =>
    Effect.gen(function* () {
      const { rows } = yield* runPlainly(settings, [
        `select (select count(*) from runtime_operations where state = 'queued' and action = 'start')::int as queued,
                (select count(distinct project_id) from runtime_operations)::int as projects,
                (select count(*) from live_operations join runtime_operations using (project_id, row_id))::int as live`
      ])
      yield* runPlainly(settings, [
        "truncate runtime_operations, live_operations",
        "alter sequence bench_projects restart"
      ])
      const { queued, projects, live } = rows[0] ?? {}
      return [queued, projects, live].every((count) => count === all)
        ? []
        : [`${all} admissions left ${queued} queued receipts of ${projects} projects, ${live} of them live`]
    })
  )

export const callOf = (id: string, project: string, key: string): string =>
  `select e.outcome, e.actual, e.expected, e.admitted_row, e.admitted_at, (e.operation).* from enqueue_operation(${id}::uuid, ${project}::bigint,
    '${account}'::uuid, 'user', 'start', ${key}::text, null::bigint, '{}'::jsonb, 'superseded', 'superseded') e`

/** The ceiling: plain `pg`, one prepared call of the product's function, and no look at the answer. */
export const plainCall = (settings: PlainSettings): Contender =>
  admissionContender("pg, one call", settings, (load) =>
    Effect.scoped(
      Effect.gen(function* () {
        const clients = yield* plainClients(settings, load.workers)
        let project = 0
        return yield* loopPromises(load, (worker) => {
          project += 1
          const values = [randomUUID(), project, `key-${project}`]
          return clients[worker]!.query({ name: "enqueue", text: callOf("$1", "$2", "$3"), values })
        })
      })
    )
  )

/** The same call from PostgreSQL's load generator; the Project comes from a sequence. */
export const pgbenchCall = (settings: PlainSettings, directory: string): Contender =>
  admissionContender("pgbench, one call, cold", settings, (load) =>
    pgbench(
      settings,
      {
        path: Path.join(directory, "enqueue.sql"),
        text: `${callOf("gen_random_uuid()", "p", "'key-' || p")
          .replace(/^select /, "select p, ")
          .replace(" from ", " from nextval('bench_projects') p, lateral ")
          .replaceAll("\n", " ")};\n`
      },
      load
    )
  )
