/**
 * Adapter of the lease table. Every method is one standalone statement that locks rows of
 * execution_leases only; the runtime's row is read, never locked. Ages are counted by the database's clock.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import {
  cancelTombstoneSeconds,
  cancelTombstonesKeptMin,
  endedLeasesRemovedMax,
  executionLeaseSeconds,
  groupedLeasesMax,
  leaseInventoryMax
} from "../../domain/Bounds.ts"
import { LeaseId, type ProjectId } from "../../domain/Identity.ts"
import { CancelMarker, type Lease, LeaseLostReason, ObservedLease } from "../../domain/leases/Lease.ts"
import {
  type KeptLease,
  LeaseStore,
  type RenewedLease,
  type SettledLease
} from "../../domain/leases/LeaseStore.ts"
import { PluginDb, type SqlRow } from "../../domain/persistence/PluginDb.ts"
import { groupedCalls } from "./groupedCalls.ts"

type Db = PluginDb["Service"]

/** An age is never below zero: a stored time is rounded to the millisecond, and the server's clock may step back. */
const columns = `id, project_id, generation, sandbox_id, process, label, cancel,
  (extract(epoch from admitted_at) * 1000)::float8 as admitted_at_millis,
  greatest(0, floor(extract(epoch from clock_timestamp() - heartbeat_at) * 1000))::float8 as age_millis`

const termIsOver = (lease: string): string =>
  `${lease}.heartbeat_at < clock_timestamp() - make_interval(secs => ${executionLeaseSeconds})`

const decodeObserved = Schema.decodeUnknownSync(ObservedLease)
const decodeMarker = Schema.decodeUnknownSync(CancelMarker)
const decodeReason = Schema.decodeUnknownSync(LeaseLostReason)
const decodeOutcome = Schema.decodeUnknownSync(
  Schema.Union([Schema.Literals(["renewed", "restored"]), LeaseLostReason])
)
const decodeId = Schema.decodeUnknownSync(LeaseId)

/** A row that this adapter's own statements could not have stored is a defect, not a failure of the world. */
const observedOf = (row: SqlRow): ObservedLease =>
  decodeObserved({
    id: row["id"],
    project: Number(row["project_id"]),
    generation: Number(row["generation"]),
    sandbox: row["sandbox_id"],
    process: row["process"],
    label: row["label"],
    cancel: row["cancel"],
    admittedAtMillis: Math.floor(Number(row["admitted_at_millis"])),
    heartbeatAgeMillis: Number(row["age_millis"])
  })

const renewText = `select * from renew_executions(
  $1, $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::boolean[], $8::text[])`

/** The function answers for the leases of which there is more to say than that they were renewed. */
const renewedOf = (
  kept: ReadonlyArray<KeptLease>,
  rows: ReadonlyArray<SqlRow>
): ReadonlyArray<RenewedLease> => {
  const told = new Map(rows.map((row) => [row["id"], row]))
  return kept.map(({ lease: { id } }): RenewedLease => {
    const row = told.get(id)
    return row === undefined
      ? { id, outcome: "renewed", cancel: "none" }
      : { id, outcome: decodeOutcome(row["outcome"]), cancel: decodeMarker(row["cancel"]) }
  })
}

const renew = (db: Db) => (process: string, kept: ReadonlyArray<KeptLease>) =>
  db
    .query({
      operation: "LeaseStore.renew",
      text: renewText,
      parameters: [
        process,
        kept.map(({ lease }) => lease.id),
        kept.map(({ lease }) => String(lease.project)),
        kept.map(({ lease }) => String(lease.generation)),
        kept.map(({ lease }) => lease.label),
        kept.map(({ cancel }) => cancel),
        kept.map(({ restorable }) => restorable),
        kept.map(({ lease }) => lease.sandbox)
      ]
    })
    .pipe(Effect.map((rows) => renewedOf(kept, rows)))

const settleText = `
with released as (
  delete from execution_leases where id = $1::uuid and process = $2 and cancel = 'none' returning id),
verified as (
  update execution_leases set cancel = 'verified'
    where id = $1::uuid and process = $2 and cancel <> 'none' returning id)
select (select count(*) from released)::int as released, (select count(*) from verified)::int as verified`

/** Leases that end at the same time are deleted by one statement, each for its own holder. */
const release = (db: Db) =>
  groupedCalls<Lease, boolean>({
    max: groupedLeasesMax,
    run: (leases) =>
      db
        .query({
          operation: "LeaseStore.settle",
          text: "select release_executions($1::uuid[], $2::text[]) as id",
          parameters: [leases.map(({ id }) => id), leases.map((lease) => lease.process)]
        })
        .pipe(
          Effect.map((rows) => {
            const released = new Set(rows.map((row) => row["id"]))
            return leases.map(({ id }) => released.has(id))
          })
        )
  })

/** The lease is deleted. Where it is not there uncancelled, it is looked at again: a request may have come in between. */
const settle = (db: Db): LeaseStore["Service"]["settle"] => {
  const released = release(db)
  const again = (lease: Lease) =>
    db
      .query({ operation: "LeaseStore.settle", text: settleText, parameters: [lease.id, lease.process] })
      .pipe(
        Effect.map(([row]): SettledLease =>
          row?.["released"] === 1 ? "released" : row?.["verified"] === 1 ? "cancelled" : "absent"
        )
      )
  return (lease) =>
    Effect.flatMap(released(lease), (isReleased) =>
      isReleased ? Effect.succeed("released" as const) : again(lease)
    )
}

const verifyText = `
insert into execution_leases (id, project_id, generation, sandbox_id, process, label, cancel)
  select $1::uuid, r.project_id, r.generation, $6, $2, $5, 'verified' from runtimes r
    where r.project_id = $3::bigint and r.generation = $4::bigint and r.observed <> 'deleted'
  on conflict (id) do update set cancel = 'verified' where execution_leases.process = excluded.process
  returning id`

const verifyCancel = (db: Db) => (lease: Lease) =>
  db
    .query({
      operation: "LeaseStore.verifyCancel",
      text: verifyText,
      parameters: [lease.id, lease.process, lease.project, lease.generation, lease.label, lease.sandbox]
    })
    .pipe(Effect.map((rows) => rows.length === 1))

const markerOf = (rows: ReadonlyArray<SqlRow>): Option.Option<CancelMarker> =>
  Option.map(Option.fromNullishOr(rows[0]), (row) => decodeMarker(row["cancel"]))

const requestCancel = (db: Db) => (id: LeaseId) =>
  db
    .query({
      operation: "LeaseStore.requestCancel",
      text: `update execution_leases set cancel = case cancel when 'none' then 'requested' else cancel end
        where id = $1::uuid returning cancel`,
      parameters: [id]
    })
    .pipe(Effect.map(markerOf))

const requestCancelOf = (db: Db) => (project: ProjectId) =>
  db
    .query({
      operation: "LeaseStore.requestCancelOf",
      text: `update execution_leases set cancel = 'requested'
        where project_id = $1::bigint and cancel <> 'verified' returning ${columns}`,
      parameters: [project]
    })
    .pipe(Effect.map((rows) => rows.map(observedOf)))

const cancellation = (db: Db) => (id: LeaseId) =>
  db
    .query({
      operation: "LeaseStore.cancellation",
      text: "select cancel from execution_leases where id = $1::uuid",
      parameters: [id]
    })
    .pipe(Effect.map(markerOf))

const whyUnusableText = `
select case
    when r.project_id is null then 'generation'
    when l.id is null then 'absent'
    when l.process <> $2 then 'successor'
    when l.cancel <> 'none' then 'cancelled'
    when ${termIsOver("l")} then 'expired'
  end as reason
from (select) one
  left join execution_leases l on l.id = $1::uuid
  left join runtimes r on r.project_id = $3::bigint and r.generation = $4::bigint and r.observed <> 'deleted'`

const whyUnusable = (db: Db) => (lease: Lease) =>
  db
    .query({
      operation: "LeaseStore.whyUnusable",
      text: whyUnusableText,
      parameters: [lease.id, lease.process, lease.project, lease.generation]
    })
    .pipe(
      Effect.map(([row]) =>
        Option.map(Option.fromNullishOr(row?.["reason"]), (reason) => decodeReason(reason))
      )
    )

const reads = (db: Db) => {
  const many = (operation: string, condition: string, order: string, parameter: unknown) =>
    db
      .query({
        operation,
        text: `select ${columns} from execution_leases
          where ${condition} and cancel <> 'verified' order by ${order}, id limit ${leaseInventoryMax}`,
        parameters: [parameter]
      })
      .pipe(Effect.map((rows) => rows.map(observedOf)))
  return {
    byId: (id: LeaseId) =>
      db
        .query({
          operation: "LeaseStore.byId",
          text: `select ${columns} from execution_leases where id = $1::uuid`,
          parameters: [id]
        })
        .pipe(Effect.map(([row]) => Option.map(Option.fromNullishOr(row), observedOf))),
    inventory: (node: string) =>
      many("LeaseStore.inventory", "split_part(process, '/', 2) = $1", "heartbeat_at", node),
    ofProject: (project: ProjectId) =>
      many("LeaseStore.ofProject", "project_id = $1::bigint", "admitted_at", project)
  }
}

/** A tombstone outlives its holder: it goes when its generation ends. */
const deleteObserved = (db: Db) => (observed: ReadonlyArray<ObservedLease>) =>
  db
    .query({
      operation: "LeaseStore.deleteObserved",
      text: `delete from execution_leases l using unnest($1::uuid[], $2::text[]) as o(id, process)
        where l.id = o.id and l.process = o.process and l.cancel <> 'verified' returning l.id`,
      parameters: [observed.map((lease) => lease.id), observed.map((lease) => lease.process)]
    })
    .pipe(Effect.map((rows) => rows.map((row) => decodeId(row["id"]))))

const takeOver = (db: Db) => (observed: ObservedLease, successor: string) =>
  db
    .query({
      operation: "LeaseStore.takeOver",
      text: `update execution_leases l set process = $3, heartbeat_at = now()
        where l.id = $1::uuid and l.process = $2 and l.cancel <> 'verified' and ${termIsOver("l")} returning l.id`,
      parameters: [observed.id, observed.process, successor]
    })
    .pipe(Effect.map((rows) => rows.length === 1))

/** Tombstones whose generation has ended, and beyond the newest of a Project those that are old. */
const removeEnded = (db: Db) =>
  db
    .query({
      operation: "LeaseStore.removeEnded",
      text: `delete from execution_leases where id = any(array(
          select l.id from execution_leases l join (
            select id, heartbeat_at < now() - make_interval(secs => ${cancelTombstoneSeconds})
                and row_number() over (partition by project_id order by heartbeat_at desc, id)
                  > ${cancelTombstonesKeptMin} as surplus
              from execution_leases where cancel = 'verified') t using (id)
          where l.cancel = 'verified' and (t.surplus or not exists (select from runtimes r
              where r.project_id = l.project_id and r.generation <= l.generation and r.observed <> 'deleted'))
          order by l.id limit ${endedLeasesRemovedMax} for update of l skip locked))
        returning id`
    })
    .pipe(Effect.map((rows) => rows.length))

/** The lease table on the plugin's schema. */
export const layer: Layer.Layer<LeaseStore, never, PluginDb> = Layer.effect(
  LeaseStore,
  PluginDb.use((db) =>
    Effect.sync(() =>
      LeaseStore.of({
        renew: renew(db),
        settle: settle(db),
        verifyCancel: verifyCancel(db),
        requestCancel: requestCancel(db),
        requestCancelOf: requestCancelOf(db),
        cancellation: cancellation(db),
        whyUnusable: whyUnusable(db),
        ...reads(db),
        deleteObserved: deleteObserved(db),
        takeOver: takeOver(db),
        removeEnded: removeEnded(db)
      })
    )
  )
)
