/** Reads of environment leases: what somebody may decide on. Who writes afterwards repeats what was seen as a condition. */
import * as Effect from "effect/Effect"
import {
  abandonedLeaseGraceSeconds,
  environmentLeaseListMax,
  groupedCleanupsMax,
  groupedLeasesMax,
  groupedStatementsAtOnceMax
} from "../../domain/Bounds.ts"
import type { EnvironmentLease, LeaseInEnvironment } from "../../domain/environments/EnvironmentLease.ts"
import type { EnvironmentLeaseStore } from "../../domain/environments/EnvironmentLeaseStore.ts"
import type { RunId } from "../../domain/Identity.ts"
import { columnsBeside, environmentBeside } from "./environmentRows.ts"
import { groupedCalls } from "./groupedCalls.ts"
import { jsonText, leaseIn, leaseOf, leasesOf, type Run } from "./leaseRows.ts"
import { liveRunList } from "./migrations/0001_work.ts"
import { unfinished } from "./migrations/0021_environment_leases.ts"

type Service = EnvironmentLeaseStore["Service"]

const newest = (condition: string): string =>
  `select l.* from environment_leases l where ${condition}
    order by l.created_at desc, l.id desc limit ${environmentLeaseListMax}`

const reusable = newest(`l.environment_id = $2::uuid and l.tenant_id = $1::uuid
  and l.lease_policy = 'reuse_by_environment' and ${unfinished("l")}
  and l.execution_workspace_id is not distinct from $3::uuid
  and ($3::uuid is not null or l.task_id is not distinct from $4::uuid)`)

/** Reusable rows, and those that were retained whatever their policy: nobody else would come back for them. */
const destroyable = (owner: string): string =>
  newest(`l.${owner} = $2::uuid and l.tenant_id = $1::uuid and ${unfinished("l")}
    and (l.lease_policy = 'reuse_by_environment' or l.status = 'retained')`)

const ofRequestText = `select l.* from environment_leases l
  where l.tenant_id = $1::uuid and l.request_key = $2::text
  order by l.created_at desc, l.id desc limit 1`

const ofAgent = `select distinct on (l.created_at, l.id) l.* from (
    select m.* from environment_leases m
      where m.agent_key = $1::text and m.status in ('retained', 'pending_cleanup')
    union all
    select h.* from core.runs r join environment_leases h on h.run_id = r.id
      where r.agent_id = $1::uuid and h.status in ('retained', 'pending_cleanup')) l
  order by l.created_at desc, l.id desc limit ${environmentLeaseListMax}`

const otherOwnerText = `select a.id
  from jsonb_to_recordset($1::text::jsonb) as a(id uuid, resource text, provider text, environment uuid)
  where exists (select from environment_leases l
    where left(l.provider_lease_id, 200) = left(a.resource, 200) and l.provider_lease_id = a.resource
      and l.status in ('active', 'retained') and l.id <> a.id
      and l.provider is not distinct from a.provider and l.environment_id is not distinct from a.environment)`

/** Those of the leases whose resource another row holds, in one statement. */
const otherOwners = (run: Run) =>
  groupedCalls<EnvironmentLease, boolean>({
    max: groupedCleanupsMax,
    run: (leases) =>
      run("hasOtherOwner", otherOwnerText, [
        jsonText(
          leases.map(({ environment, id, provider, providerLeaseId: resource }) => ({
            id,
            resource,
            provider,
            environment
          }))
        )
      ]).pipe(
        Effect.map((rows) => {
          const owned = new Set(rows.map((row) => row["id"]))
          return leases.map(({ id }) => owned.has(id))
        })
      )
  })

/**
 * A run that has just ended releases its leases itself, so it is given a while. One whose row is gone has ended. A row
 * without a run is nobody's but its environment's.
 */
const abandonedText = `select l.* from environment_leases l left join core.runs r on r.id = l.run_id
  where l.status = 'active' and (l.expires_at < clock_timestamp() or l.run_id is not null and (
    r.id is null or r.status not in (${liveRunList}) and coalesce(r.finished_at, r.updated_at)
      < clock_timestamp() - make_interval(secs => ${abandonedLeaseGraceSeconds})))
  order by l.created_at, l.id limit ${environmentLeaseListMax}`

/** What several runs hold, for the releases of them that come together, with the environments that they release it in. */
const ofRunsText = `select l.*, ${columnsBeside("e")}
  from environment_leases_of_runs($1::uuid[]) l left join environments e on e.id = l.environment_id
  order by l.created_at desc, l.id desc`

const heldByRun = (run: Run): Service["heldByRun"] =>
  groupedCalls<RunId, ReadonlyArray<LeaseInEnvironment>>({
    max: groupedLeasesMax,
    atOnce: groupedStatementsAtOnceMax,
    run: (runs) =>
      Effect.map(run("heldByRun", ofRunsText, [[...new Set(runs)]]), (rows) => {
        const found = rows.map((row) => ({ lease: leaseOf(row), environment: environmentBeside(row) }))
        const held = Map.groupBy(found, ({ lease }) => lease.run)
        return runs.map((each) => held.get(each) ?? [])
      })
  })

const list =
  (run: Run): Service["listLeases"] =>
  (filter) => {
    const given = (
      [
        ["l.environment_id", filter.environment],
        ["l.tenant_id", filter.tenant],
        ["l.run_id", filter.run]
      ] as const
    ).filter(([, id]) => id !== undefined)
    const condition = given.map(([column], place) => `${column} = $${place + 1}::uuid`).join(" and ")
    return Effect.map(
      run(
        "listLeases",
        newest(condition === "" ? "true" : condition),
        given.map(([, id]) => id)
      ),
      leasesOf
    )
  }

export const leaseReads = (
  run: Run
): Pick<
  Service,
  | "abandoned"
  | "destroyable"
  | "getLeaseById"
  | "hasOtherOwner"
  | "heldByRun"
  | "leaseOfRequest"
  | "listLeases"
  | "ofAgent"
  | "reusable"
  | "unfinishedOf"
> => {
  const isOthers = otherOwners(run)
  return {
    getLeaseById: (lease) =>
      Effect.map(
        run("getLeaseById", "select * from environment_leases where id = $1::uuid", [lease]),
        leaseIn
      ),
    leaseOfRequest: (tenant, requestKey) =>
      Effect.map(run("leaseOfRequest", ofRequestText, [tenant, requestKey]), leaseIn),
    heldByRun: heldByRun(run),
    listLeases: list(run),
    reusable: ({ environment, executionWorkspace, task, tenant }) =>
      Effect.map(run("reusable", reusable, [tenant, environment, executionWorkspace, task]), leasesOf),
    destroyable: (scope) =>
      Effect.map(
        "task" in scope
          ? run("destroyable", destroyable("task_id"), [scope.tenant, scope.task])
          : run("destroyable", destroyable("execution_workspace_id"), [
              scope.tenant,
              scope.executionWorkspace
            ]),
        leasesOf
      ),
    unfinishedOf: (environment) =>
      Effect.map(
        run(
          "unfinishedOf",
          newest(`l.environment_id = $1::uuid and l.provider_lease_id is not null and ${unfinished("l")}`),
          [environment]
        ),
        leasesOf
      ),
    ofAgent: (agent) => Effect.map(run("ofAgent", ofAgent, [agent]), leasesOf),
    hasOtherOwner: (lease) => (lease.providerLeaseId === null ? Effect.succeed(false) : isOthers(lease)),
    abandoned: Effect.suspend(() => Effect.map(run("abandoned", abandonedText), leasesOf))
  }
}
