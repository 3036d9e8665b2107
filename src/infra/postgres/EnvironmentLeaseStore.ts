/**
 * Adapter of environment leases: acquisitions, releases and metadata. Cleanups are in leaseCleanups.ts, reads in
 * leaseReads.ts, intents in leaseIntents.ts. Each method is one round trip.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { groupedLeasesMax, groupedStatementsAtOnceMax } from "../../domain/Bounds.ts"
import type { EnvironmentLease } from "../../domain/environments/EnvironmentLease.ts"
import {
  EnvironmentLeasesFull,
  EnvironmentLeaseStore,
  EnvironmentTenantMismatch,
  type NewEnvironmentLease,
  ReusableLeaseConflict
} from "../../domain/environments/EnvironmentLeaseStore.ts"
import { AcquisitionRequestTaken } from "../../domain/environments/ProviderIntent.ts"
import type { JsonObject } from "../../domain/Json.ts"
import {
  PluginDb,
  type SqlRow,
  type StorageError,
  type StorageFailure
} from "../../domain/persistence/PluginDb.ts"
import { groupedCalls, groupedElseAlone } from "./groupedCalls.ts"
import { leaseCleanups } from "./leaseCleanups.ts"
import { leaseIntents } from "./leaseIntents.ts"
import { leaseReads } from "./leaseReads.ts"
import {
  jsonText,
  leaseIn,
  leaseOf,
  leasesOf,
  newLeaseOf,
  type Run,
  runner,
  unknownWhenUnanswered
} from "./leaseRows.ts"

type Service = EnvironmentLeaseStore["Service"]

const acquireText = `select f.outcome, (f.lease).*
  from jsonb_to_record($1::text::jsonb) as c(id uuid, tenant uuid, environment uuid,
      "executionWorkspace" uuid, task uuid, run uuid, policy text, provider text, "providerLeaseId" text,
      "expiresAtMillis" float8, metadata jsonb, "sentConfig" jsonb, "assertTenantBinding" boolean, replaces uuid),
    lateral acquire_environment_lease(c.id, c.tenant, c.environment, c."executionWorkspace", c.task, c.run, c.policy,
      c.provider, c."providerLeaseId", to_timestamp(c."expiresAtMillis" / 1000), c.metadata, c."sentConfig",
      c."assertTenantBinding", c.replaces) as f`

const acquireTogetherText = "select * from acquire_environment_leases($1::text::jsonb)"

const refusals = {
  mismatch: () => new EnvironmentTenantMismatch(),
  conflict: () => new ReusableLeaseConflict(),
  full: () => new EnvironmentLeasesFull(),
  taken: () => new AcquisitionRequestTaken()
}

type Refusal = ReturnType<(typeof refusals)[keyof typeof refusals]>

const isRefusal = (outcome: unknown): outcome is keyof typeof refusals =>
  typeof outcome === "string" && Object.hasOwn(refusals, outcome)

const leaseOrRefusal = (row: SqlRow | undefined): Effect.Effect<EnvironmentLease, Refusal> => {
  const outcome = row?.["outcome"]
  if (isRefusal(outcome)) return Effect.fail(refusals[outcome]())
  // The function answers one row always, and a lease in it unless it refused: an id of another tenant's is our mistake.
  return row === undefined || row["id"] === null
    ? Effect.die(new Error("an acquired lease has an id that another tenant's lease has"))
    : Effect.succeed(leaseOf(row))
}

/** Several go together; those that may wait for a row go alone. */
const acquireLease = (run: Run): Service["acquireLease"] => {
  const alone = (lease: NewEnvironmentLease) =>
    Effect.map(run("acquireLease", acquireText, [jsonText(lease)]), ([row]) => leaseOrRefusal(row))
  const grouped = groupedElseAlone<NewEnvironmentLease, ReturnType<typeof leaseOrRefusal>>({
    max: groupedLeasesMax,
    atOnce: groupedStatementsAtOnceMax,
    alone,
    together: (leases) =>
      Effect.map(run("acquireLease", acquireTogetherText, [jsonText(leases)]), (rows) => {
        const rowOf = new Map(rows.map((row) => [row["lease"], row]))
        return leases.map((lease) => {
          const row = rowOf.get(lease.id)
          return row === undefined ? undefined : Effect.succeed(newLeaseOf(lease, row))
        })
      })
  })
  return (lease) => {
    const isKeyed = Object.hasOwn(lease.metadata, "acquisitionRequest")
    const mayWait = isKeyed || lease.assertTenantBinding || lease.replaces !== undefined
    const answer = mayWait ? alone(lease) : grouped(lease)
    return Effect.flatten(unknownWhenUnanswered(answer))
  }
}

const refreshText = `update environment_leases set metadata = $3::text::jsonb
  where id = $1::uuid and run_id = $2::uuid and status = 'active' returning *`

const metadataText = `update environment_leases set metadata = $2::text::jsonb
  where id = $1::uuid and ($3::text is null or metadata = $3::text::jsonb) returning *`

/** A row of an acquisition whose answer was lost is the same resource: it becomes the orphan. */
const insertPendingText = `with intent as (delete from provider_intents where id = $1::uuid)
  insert into environment_leases
      (id, tenant_id, environment_id, execution_workspace_id, task_id, run_id, provider, provider_lease_id, metadata,
        sent_config, failure_reason, status, cleanup_status, released_at, cleanup_due_at, ended_by)
    values ($1::uuid, $2::uuid, (select e.id from environments e where e.id = $3::uuid for key share), $4::uuid, $5::uuid,
      $6::uuid, $7::text, $8::text, $9::text::jsonb, $10::text::jsonb, $11::text, 'pending_cleanup', 'failed', now(),
      now(), 'acquisition')
    on conflict (id) do update
      set status = 'pending_cleanup', cleanup_status = 'failed', released_at = now(), cleanup_due_at = now(),
        failure_reason = excluded.failure_reason, ended_by = excluded.ended_by
      where environment_leases.status = 'active' and environment_leases.tenant_id = excluded.tenant_id
        and environment_leases.provider_lease_id = excluded.provider_lease_id
    returning *`

const insertPendingCleanupLease =
  (run: Run, byId: Service["getLeaseById"]): Service["insertPendingCleanupLease"] =>
  (lease) =>
    Effect.gen(function* () {
      const inserted = leaseIn(
        yield* unknownWhenUnanswered(
          run("insertPendingCleanupLease", insertPendingText, [
            lease.id,
            lease.tenant,
            lease.environment,
            lease.executionWorkspace,
            lease.task,
            lease.run,
            lease.provider,
            lease.providerLeaseId,
            jsonText(lease.metadata),
            jsonText(lease.sentConfig),
            lease.failureReason
          ])
        )
      )
      if (Option.isSome(inserted)) return inserted.value
      const present = yield* byId(lease.id)
      if (Option.isSome(present)) return present.value
      return yield* Effect.die(new Error("a lease that was in the way of its own insert is not there"))
    })

type End = Parameters<Service["releaseLease"]>

const endOf = ([lease, end]: End): JsonObject => ({
  lease,
  status: end.status,
  reason: end.failureReason,
  cleanup: end.cleanupStatus,
  metadata: end.metadata ?? {},
  actor: end.actor,
  run: end.run ?? null
})

const releaseText = "select * from release_environment_leases($1::text::jsonb, $2::boolean)"

type Ended = Option.Option<EnvironmentLease>

/** Of two ends of one lease the later one is asked for in a statement of its own, and finds the row ended. */
const endTogether = (
  run: Run,
  ends: ReadonlyArray<End>
): Effect.Effect<ReadonlyArray<Ended>, StorageFailure> =>
  Effect.gen(function* () {
    const first = ends.filter(([lease], place) => ends.findIndex(([other]) => other === lease) === place)
    const later = ends.filter((end) => !first.includes(end))
    const rows = yield* run("releaseLease", releaseText, [jsonText(first.map(endOf)), first.length > 1])
    const ended = new Map(leasesOf(rows).map((lease) => [lease.id, lease]))
    const answers = new Map<End, Ended>(first.map((end) => [end, Option.fromNullishOr(ended.get(end[0]))]))
    const behind = later.length === 0 ? [] : yield* endTogether(run, later)
    later.forEach((end, place) => answers.set(end, behind[place] ?? Option.none()))
    return ends.map((end) => answers.get(end) ?? Option.none())
  })

const releaseLease = (run: Run): Service["releaseLease"] => {
  const together = groupedCalls<End, Ended>({
    max: groupedLeasesMax,
    atOnce: groupedStatementsAtOnceMax,
    run: (ends) => endTogether(run, ends)
  })
  return (...end) => unknownWhenUnanswered(together(end))
}

/** Environment leases on the plugin's schema. */
export const layer: Layer.Layer<EnvironmentLeaseStore, never, PluginDb> = Layer.effect(
  EnvironmentLeaseStore,
  Effect.gen(function* () {
    const run = runner(yield* PluginDb, "EnvironmentLeaseStore")
    const write = (
      method: string,
      text: string,
      parameters: ReadonlyArray<unknown>
    ): Effect.Effect<ReturnType<typeof leaseIn>, StorageError> =>
      unknownWhenUnanswered(run(method, text, parameters)).pipe(Effect.map(leaseIn))
    const reads = leaseReads(run)
    return EnvironmentLeaseStore.of({
      ...leaseIntents(run),
      ...reads,
      ...leaseCleanups(run),
      acquireLease: acquireLease(run),
      refreshLease: (lease, holder, metadata) =>
        write("refreshLease", refreshText, [lease, holder, jsonText(metadata)]),
      insertPendingCleanupLease: insertPendingCleanupLease(run, reads.getLeaseById),
      releaseLease: releaseLease(run),
      updateLeaseMetadata: (lease, metadata, former) =>
        write("updateLeaseMetadata", metadataText, [
          lease,
          jsonText(metadata),
          former === undefined ? null : jsonText(former)
        ])
    })
  })
)
