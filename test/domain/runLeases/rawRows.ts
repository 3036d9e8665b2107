/**
 * Rows of run leases as they are stored, and as a test writes them by hand: past every rule of the stores, as somebody
 * else's program may.
 */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import {
  type EnvironmentId,
  EnvironmentLeaseId,
  type ExecutionWorkspaceId,
  type RunId,
  type TaskId,
  type TenantId
} from "../../../src/domain/Identity.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { PluginDb, type SqlRow } from "../../../src/domain/persistence/PluginDb.ts"

export const sql = (text: string, parameters: ReadonlyArray<unknown> = []) =>
  PluginDb.use((db) => db.query({ operation: "test", text, parameters }))

/** First column of the first row. */
export const value = (text: string, parameters: ReadonlyArray<unknown> = []) =>
  Effect.map(sql(text, parameters), ([row]) => Object.values(row as SqlRow)[0])

/** A lease's row as it is stored, columns by their own names. */
export const leaseRow = (lease: EnvironmentLeaseId) =>
  Effect.map(
    sql("select * from environment_leases where id = $1::uuid", [lease]),
    ([row]) => row as SqlRow & { readonly metadata: JsonObject }
  )

/** All rows of an environment, oldest first. */
export const leaseRowsOf = (environment: EnvironmentId) =>
  sql("select * from environment_leases where environment_id = $1::uuid order by created_at, id", [
    environment
  ])

/** Columns of a lease that a test may write by hand; `metadata` takes the place of the former one. */
export interface RawLease {
  readonly status?: string
  readonly lease_policy?: string
  readonly provider?: string | null
  readonly provider_lease_id?: string | null
  readonly failure_reason?: string | null
  readonly cleanup_status?: string | null
  readonly environment_id?: EnvironmentId | null
  readonly execution_workspace_id?: ExecutionWorkspaceId | null
  readonly task_id?: TaskId | null
  readonly run_id?: RunId | null
  readonly expires_at?: Date | null
  readonly cleanup_tries?: number
  readonly needs_operator?: boolean
  readonly metadata?: JsonObject
  readonly sent_config?: JsonObject | null
}

const parameterOf = (given: unknown): unknown =>
  given !== null && typeof given === "object" && !(given instanceof Date) ? JSON.stringify(given) : given

const typeOf = (column: string): string =>
  column.endsWith("_id") && column !== "provider_lease_id"
    ? "::uuid"
    : column === "metadata" || column === "sent_config"
      ? "::text::jsonb"
      : column === "expires_at"
        ? "::timestamptz"
        : ""

/** Writes columns of a lease past every rule, as somebody else's program may; the moments follow the status. */
export const setLease = (lease: EnvironmentLeaseId, change: RawLease) => {
  const columns = Object.entries(change)
  const list = columns.map(([column], place) => `${column} = $${place + 2}${typeOf(column)}`)
  const moments =
    change.status === undefined
      ? []
      : [
          `released_at = ${change.status === "active" ? "null" : "coalesce(released_at, now())"}`,
          `cleanup_due_at = ${change.status === "pending_cleanup" ? "coalesce(cleanup_due_at, now())" : "null"}`
        ]
  return sql(`update environment_leases set ${[...list, ...moments].join(", ")} where id = $1::uuid`, [
    lease,
    ...columns.map(([, each]) => parameterOf(each))
  ])
}

/** Merges keys into a lease's metadata; those that are undefined go. */
export const setMetadata = (lease: EnvironmentLeaseId, keys: JsonObject) =>
  sql(
    "update environment_leases set metadata = (metadata || $2::text::jsonb) - $3::text[] where id = $1::uuid",
    [lease, JSON.stringify(keys), Object.keys(keys).filter((key) => keys[key] === undefined)]
  )

/** Moves a run to any status, also one that its store would refuse; an end is stamped. */
export const setRun = (run: RunId, status: string) =>
  sql(
    `update core.runs set status = $2::text, updated_at = now(),
      finished_at = case when $2::text in ('queued', 'scheduled_retry', 'running') then null else now() end
      where id = $1::uuid`,
    [run, status]
  )

/** A lease written by hand: `active`, `ephemeral`, of nobody, unless told. */
export const newLease = (tenant: TenantId, environment: EnvironmentId | null, given: RawLease = {}) =>
  Effect.gen(function* () {
    const id = EnvironmentLeaseId.make(randomUUID())
    yield* sql(
      "insert into environment_leases (id, tenant_id, environment_id) values ($1::uuid, $2::uuid, $3::uuid)",
      [id, tenant, environment]
    )
    if (Object.keys(given).length > 0) yield* setLease(id, given)
    return id
  })
