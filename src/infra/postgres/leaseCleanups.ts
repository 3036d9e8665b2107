/**
 * Statements on cleanups of environment leases: the sweep's queue, claims and the ends of attempts. A claim and a
 * settlement compare what they write over in the statement itself. Source: RL-FENCE-01 to -03, RL-SWEEP-05.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import {
  cleanupClaimMillis,
  cleanupSweepPageMax,
  endedLeaseKeptSeconds,
  endedLeasesPrunedMax,
  groupedCleanupsMax
} from "../../domain/Bounds.ts"
import type {
  ClaimedCleanup,
  CleanupClaim,
  CleanupEnd,
  EnvironmentLeaseStore
} from "../../domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLease } from "../../domain/environments/EnvironmentLease.ts"
import type { JsonObject } from "../../domain/Json.ts"
import type { SqlRow } from "../../domain/persistence/PluginDb.ts"
import { groupedCalls } from "./groupedCalls.ts"
import { jsonText, leasesOf, type Run, unknownWhenUnanswered } from "./leaseRows.ts"
import { unfinished } from "./migrations/0021_environment_leases.ts"

type Service = EnvironmentLeaseStore["Service"]

const claimText = "select * from claim_environment_cleanups($1::text::jsonb, $2::boolean)"
const settleText = "select * from settle_environment_cleanups($1::text::jsonb, $2::boolean)"

const claimOf = (claim: CleanupClaim): JsonObject => ({
  lease: claim.lease,
  attempt: claim.attempt,
  from: claim.from,
  refuseLiveRun: claim.refuseLiveRun,
  reason: claim.failureReason,
  marker: claim.marker ?? {},
  actor: claim.actor
})

const endOf = ({ attempt, lease, providerLeaseId, run }: ClaimedCleanup, end: CleanupEnd): JsonObject => ({
  lease,
  attempt,
  run,
  providerLeaseId,
  status: end._tag === "Ended" ? end.status : null,
  isTry: end._tag === "Owed" && end.isTry !== false,
  keepsReason: end._tag === "Owed" || end.failureReason === undefined,
  reason: end._tag === "Ended" ? (end.failureReason ?? null) : null,
  metadata: end.metadata ?? {},
  remove: end._tag === "Ended" ? end.removeKeys : []
})

const renewText = `update environment_leases l
  set metadata = jsonb_set(l.metadata, '{pendingCleanupLeaseExpiresAtMs}',
    to_jsonb(floor(extract(epoch from clock_timestamp()) * 1000) + ${cleanupClaimMillis}))
  where l.id = $1::uuid and l.status = 'pending_cleanup' and l.metadata ->> 'pendingCleanupAttemptId' = $2::text
    and l.metadata -> 'pendingCleanupInFlight' = 'true'::jsonb
    and l.run_id is not distinct from $3::uuid and l.provider_lease_id is not distinct from $4::text
  returning l.id`

const dueText = `select l.*, floor(extract(epoch from clock_timestamp()) * 1000)::float8 as read_at
  from due_environment_cleanups($1::float8, to_timestamp($2::float8 / 1000), $3::uuid, to_timestamp($4::float8 / 1000),
    $5::int) l
  order by l.cleanup_due_at, l.id`

/** Bounds of a first page, which follows nothing: no row is due before the one or after the other. */
const farPastMillis = -1
const farAheadMillis = Date.UTC(9999, 0)
const noId = "00000000-0000-0000-0000-000000000000"

const dueCleanups =
  (run: Run): Service["dueCleanups"] =>
  ({ after, backoffMillis, pagesMax = 1 }) =>
    Effect.map(
      run("dueCleanups", dueText, [
        backoffMillis,
        after?.lastDueAtMillis ?? farPastMillis,
        after?.leases.at(-1)?.id ?? noId,
        after?.readAtMillis ?? farAheadMillis,
        pagesMax * cleanupSweepPageMax
      ]),
      (rows) => {
        const last = rows.at(-1)?.["cleanup_due_at"]
        return {
          leases: leasesOf(rows),
          readAtMillis: after?.readAtMillis ?? Number(rows[0]?.["read_at"] ?? 0),
          lastDueAtMillis: last instanceof Date ? last.getTime() : 0
        }
      }
    )

const postponeText = `update environment_leases l set cleanup_due_at = now()
  from (select o.id from environment_leases o where o.id = any ($1::uuid[]) order by o.id for no key update) locked
  where l.id = locked.id and l.status = 'pending_cleanup'`

/** Due since 1970, so that no back-off is left of it; a live claim is left alone all the same. */
const makeDueText = `update environment_leases set cleanup_due_at = to_timestamp(0)
  where id = $1::uuid and status = 'pending_cleanup' returning id`

const needingOperatorText = `select count(*)::int as rows from environment_leases l
  where l.status = 'pending_cleanup' and l.needs_operator`

const pruneText = `delete from environment_leases where id = any (array(
    select l.id from environment_leases l
      where l.released_at < now() - make_interval(secs => ${endedLeaseKeptSeconds}) and not ${unfinished("l")}
      order by l.released_at limit ${endedLeasesPrunedMax} for update skip locked))
  returning id`

const moved = (rows: ReadonlyArray<unknown>): boolean => rows.length > 0

/** The row of each attempt: where two were made on one row, it is the one's that the statement took. */
const rowsOf =
  (attempts: ReadonlyArray<{ readonly lease: EnvironmentLease["id"]; readonly attempt: string }>) =>
  (rows: ReadonlyArray<SqlRow>): ReadonlyArray<Option.Option<EnvironmentLease>> => {
    const byId = new Map(leasesOf(rows).map((lease) => [lease.id, lease]))
    return attempts.map(({ attempt, lease }) =>
      Option.filter(
        Option.fromNullishOr(byId.get(lease)),
        ({ metadata }) => metadata["pendingCleanupAttemptId"] === attempt
      )
    )
  }

const claimTogether = (run: Run, claims: ReadonlyArray<CleanupClaim>) =>
  run("claimCleanup", claimText, [
    jsonText(claims.map(claimOf)),
    claims.length > 1 || claims.some(({ refuseLiveRun }) => refuseLiveRun)
  ]).pipe(Effect.map(rowsOf(claims)))

/**
 * Claims and settlements of several rows are one statement, in which each row is compared by itself; it locks them by id
 * first. A claim that may wait for its run's row goes alone, so that nobody else waits for that run.
 */
const grouped = (run: Run) => ({
  claim: groupedCalls<CleanupClaim, Option.Option<EnvironmentLease>>({
    max: groupedCleanupsMax,
    run: (claims) => claimTogether(run, claims)
  }),
  settle: groupedCalls<readonly [ClaimedCleanup, CleanupEnd], Option.Option<EnvironmentLease>>({
    max: groupedCleanupsMax,
    run: (ends) =>
      run("settleCleanup", settleText, [
        jsonText(ends.map(([claimed, end]) => endOf(claimed, end))),
        ends.length > 1
      ]).pipe(Effect.map(rowsOf(ends.map(([claimed]) => claimed))))
  }),
  postpone: groupedCalls<EnvironmentLease["id"], void>({
    max: groupedCleanupsMax,
    run: (leases) =>
      Effect.as(
        run("postponeCleanup", postponeText, [leases]),
        leases.map(() => undefined)
      )
  })
})

export const leaseCleanups = (
  run: Run
): Pick<
  Service,
  | "claimCleanup"
  | "dueCleanups"
  | "makeDue"
  | "needingOperator"
  | "postponeCleanup"
  | "pruneEnded"
  | "renewCleanup"
  | "settleCleanup"
> => {
  const write = (method: string, text: string, parameters: ReadonlyArray<unknown> = []) =>
    unknownWhenUnanswered(run(method, text, parameters))
  const { claim, postpone, settle } = grouped(run)
  return {
    claimCleanup: (asked) =>
      unknownWhenUnanswered(
        asked.refuseLiveRun
          ? Effect.map(claimTogether(run, [asked]), ([taken]) => taken ?? Option.none())
          : claim(asked)
      ),
    renewCleanup: ({ attempt, lease, providerLeaseId, run: holder }) =>
      Effect.map(write("renewCleanup", renewText, [lease, attempt, holder, providerLeaseId]), moved),
    settleCleanup: (claimed, end) => unknownWhenUnanswered(settle([claimed, end])),
    dueCleanups: dueCleanups(run),
    postponeCleanup: (lease) => unknownWhenUnanswered(postpone(lease)),
    makeDue: (lease) => Effect.map(write("makeDue", makeDueText, [lease]), moved),
    needingOperator: Effect.suspend(() =>
      Effect.map(run("needingOperator", needingOperatorText), ([row]) => Number(row?.["rows"]))
    ),
    pruneEnded: Effect.suspend(() => Effect.map(write("pruneEnded", pruneText), (rows) => rows.length))
  }
}
