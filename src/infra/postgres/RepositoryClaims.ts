/**
 * Adapter of the table of repository claims. Every method is one standalone statement that locks rows of
 * repository_claims only; the runtime's row is read, never locked. Ages are counted by the database's clock.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { groupedLeasesMax, leaseInventoryMax, repositoryLeaseSeconds } from "../../domain/Bounds.ts"
import { LeaseId } from "../../domain/Identity.ts"
import { LeaseLostReason } from "../../domain/leases/Lease.ts"
import type { RenewalOutcome } from "../../domain/leases/Register.ts"
import { ObservedClaim, type RepositoryClaim } from "../../domain/leases/RepositoryClaim.ts"
import {
  ClaimAnswer,
  type KeptClaim,
  type ReleasedClaim,
  RepositoryClaims
} from "../../domain/leases/RepositoryClaims.ts"
import { PluginDb, type SqlRow } from "../../domain/persistence/PluginDb.ts"
import { groupedCalls } from "./groupedCalls.ts"
import { namedLockKey } from "./locks.ts"

type Db = PluginDb["Service"]

const decodeObserved = Schema.decodeUnknownSync(ObservedClaim)
const decodeReason = Schema.decodeUnknownSync(LeaseLostReason)
const decodeOutcome = Schema.decodeUnknownSync(
  Schema.Union([Schema.Literals(["renewed", "restored"]), LeaseLostReason])
)
const decodeId = Schema.decodeUnknownSync(LeaseId)

/** A row that this adapter's own statements could not have stored is a defect, not a failure of the world. */
const observedOf = (row: SqlRow): ObservedClaim =>
  decodeObserved({
    id: row["id"],
    project: Number(row["project_id"]),
    repository: row["repository"],
    generation: Number(row["generation"]),
    sandbox: row["sandbox_id"],
    process: row["process"],
    claimedAtMillis: Number(row["claimed_at_millis"]),
    heartbeatAgeMillis: Number(row["age_millis"])
  })

const lockOf = ({ project, repository }: RepositoryClaim): bigint =>
  namedLockKey("repository", `${project}/${repository}`)

const isLiving = (project: string, generation: string): string => `exists (select from runtimes r
  where r.project_id = ${project} and r.generation = ${generation} and r.observed <> 'deleted')`

const claimText = `select * from claim_repositories(
  $1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::bigint[])`

const answerOf = (row: SqlRow | undefined): ClaimAnswer => {
  switch (row?.["answer"]) {
    case "Won":
      return ClaimAnswer.Won()
    case "Held":
      return ClaimAnswer.Held({
        process: String(row["process"]),
        sinceMillis: (row["claimed_at"] as Date).getTime()
      })
    case "Full":
      return ClaimAnswer.Full()
    case "Replaced":
      return ClaimAnswer.Replaced()
    default:
      return ClaimAnswer.Contended()
  }
}

/** Claims that are asked for at once go together; the second of two for one repository sees the first. */
const claim = (db: Db) =>
  groupedCalls<RepositoryClaim, ClaimAnswer>({
    max: groupedLeasesMax,
    run: (asked) =>
      db
        .query({
          operation: "RepositoryClaims.claim",
          text: claimText,
          parameters: [
            asked.map(({ id }) => id),
            asked.map(({ project }) => BigInt(project)),
            asked.map(({ repository }) => repository),
            asked.map(({ generation }) => BigInt(generation)),
            asked.map(({ sandbox }) => sandbox),
            asked.map((each) => each.process),
            asked.map(lockOf)
          ]
        })
        .pipe(Effect.map((rows) => rows.map(answerOf)))
  })

/**
 * Renewal, restoration and the answer are one statement over one snapshot: a row that this snapshot shows is never
 * restored, and a rival's insert wins, for which it does not wait either.
 */
const renewText = `
with kept as (
  select k.*, ${isLiving("k.project_id", "k.generation")} as living
    from unnest($2::uuid[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::boolean[], $8::bigint[])
      as k(id, project_id, repository, generation, sandbox_id, restorable, lock)),
renewed as (
  update repository_claims c set heartbeat_at = now() from kept k
    where c.project_id = k.project_id and c.repository = k.repository and c.id = k.id and c.process = $1 and k.living
    returning c.id),
restored as (
  insert into repository_claims (id, project_id, repository, generation, sandbox_id, process)
    select k.id, k.project_id, k.repository, k.generation, k.sandbox_id, $1 from kept k
    where case
      when not k.living or not k.restorable then false
      when exists (select from repository_claims c
        where c.project_id = k.project_id and c.repository = k.repository) then false
      else pg_try_advisory_xact_lock(k.lock)
    end
    on conflict (project_id, repository) do nothing
    returning id)
select k.id,
  case
    when renewed.id is not null then 'renewed'
    when restored.id is not null then 'restored'
    when not k.living then 'generation'
    when c.id <> k.id or c.process <> $1 then 'successor'
    when not k.restorable then 'expired'
    else 'absent'
  end as outcome
from kept k
  left join renewed using (id)
  left join restored using (id)
  left join repository_claims c on c.project_id = k.project_id and c.repository = k.repository`

const renew = (db: Db) => (process: string, kept: ReadonlyArray<KeptClaim>) =>
  db
    .query({
      operation: "RepositoryClaims.renew",
      text: renewText,
      parameters: [
        process,
        kept.map((each) => each.claim.id),
        kept.map((each) => String(each.claim.project)),
        kept.map((each) => each.claim.repository),
        kept.map((each) => String(each.claim.generation)),
        kept.map((each) => each.claim.sandbox),
        kept.map((each) => each.restorable),
        kept.map((each) => String(lockOf(each.claim)))
      ]
    })
    .pipe(
      Effect.map((rows) =>
        rows.map((row): RenewalOutcome => ({
          id: decodeId(row["id"]),
          outcome: decodeOutcome(row["outcome"])
        }))
      )
    )

const releaseText = "select release_repositories($1::bigint[], $2::text[], $3::uuid[], $4::text[]) as id"

const releaseParameters = (held: ReadonlyArray<RepositoryClaim>) => [
  held.map(({ project }) => BigInt(project)),
  held.map(({ repository }) => repository),
  held.map(({ id }) => id),
  held.map((each) => each.process)
]

const release = (db: Db) =>
  groupedCalls<RepositoryClaim, ReleasedClaim>({
    max: groupedLeasesMax,
    run: (held) =>
      db
        .query({
          operation: "RepositoryClaims.release",
          text: releaseText,
          parameters: releaseParameters(held)
        })
        .pipe(
          Effect.map((rows) => {
            const released = new Set(rows.map((row) => row["id"]))
            return held.map(({ id }) => (released.has(id) ? "released" : "absent"))
          })
        )
  })

const whyUnusableText = `
select case
    when not ${isLiving("$1::bigint", "$5::bigint")} then 'generation'
    when c.id is null then 'absent'
    when c.id <> $3::uuid or c.process <> $4 then 'successor'
    when c.heartbeat_at < clock_timestamp() - make_interval(secs => ${repositoryLeaseSeconds}) then 'expired'
  end as reason
from (select) one left join repository_claims c on c.project_id = $1::bigint and c.repository = $2`

const whyUnusable = (db: Db) => (held: RepositoryClaim) =>
  db
    .query({
      operation: "RepositoryClaims.whyUnusable",
      text: whyUnusableText,
      parameters: [held.project, held.repository, held.id, held.process, held.generation]
    })
    .pipe(
      Effect.map(([row]) =>
        Option.map(Option.fromNullishOr(row?.["reason"]), (reason) => decodeReason(reason))
      )
    )

const inventory = (db: Db) => (node: string) =>
  db
    .query({
      operation: "RepositoryClaims.inventory",
      text: `select id, project_id, repository, generation, sandbox_id, process,
          floor(extract(epoch from claimed_at) * 1000)::float8 as claimed_at_millis,
          greatest(0, floor(extract(epoch from clock_timestamp() - heartbeat_at) * 1000))::float8 as age_millis
        from repository_claims where split_part(process, '/', 2) = $1
        order by heartbeat_at, id limit ${leaseInventoryMax}`,
      parameters: [node]
    })
    .pipe(Effect.map((rows) => rows.map(observedOf)))

const deleteObserved = (db: Db) => (observed: ReadonlyArray<ObservedClaim>) =>
  db
    .query({
      operation: "RepositoryClaims.deleteObserved",
      text: releaseText,
      parameters: releaseParameters(observed)
    })
    .pipe(Effect.map((rows) => rows.map((row) => decodeId(row["id"]))))

/** The table of claims on the plugin's schema. */
export const layer: Layer.Layer<RepositoryClaims, never, PluginDb> = Layer.effect(
  RepositoryClaims,
  PluginDb.use((db) =>
    Effect.sync(() =>
      RepositoryClaims.of({
        claim: claim(db),
        renew: renew(db),
        release: release(db),
        whyUnusable: whyUnusable(db),
        inventory: inventory(db),
        deleteObserved: deleteObserved(db)
      })
    )
  )
)
