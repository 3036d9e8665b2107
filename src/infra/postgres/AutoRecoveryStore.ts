/** Adapter of AutoRecoveryStore: one standalone statement a method, every time the database's. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Generation, ProjectId } from "../../domain/Identity.ts"
import { PluginDb, type SqlRow } from "../../domain/persistence/PluginDb.ts"
import {
  AutoRecoveryStore,
  type Watched,
  type WatchedRuntime
} from "../../domain/operations/AutoRecoveryStore.ts"

/**
 * greatest keeps an age at zero or more: a stored time is rounded to the millisecond, half of them upwards, and
 * the server's clock may step back. (greatest ignores null, so a null start is told apart by its own case.)
 */
const watchedText = `select r.project_id, r.generation, r.refresh_epoch, r.desired, r.observed, r.recovery_attempts,
    exists (select from live_operations l where l.project_id = r.project_id) as is_busy,
    (extract(epoch from r.recovery_due_at - now()) * 1000)::float8 as due_in_millis,
    case when r.running_since is not null then
      greatest(0, extract(epoch from now() - r.running_since) * 1000)::float8 end as running_for_millis
  from runtimes r
  where r.node_id = $1::uuid and r.project_id > $2::bigint and r.recipe is not null
    and (r.desired = 'running' or r.recovery_attempts > 0 or r.recovery_due_at is not null
      or r.running_since is not null)
    and not (r.desired = 'running' and r.observed = 'running' and r.running_since is not null
      and r.recovery_attempts = 0 and r.recovery_due_at is null)
    and exists (select from core.projects p where p.id = r.project_id and p.lifecycle = 'active')
  order by r.project_id limit $3::int`

const watchedOf = (row: SqlRow): WatchedRuntime => ({
  project: Number(row.project_id) as ProjectId,
  generation: Number(row.generation) as Generation,
  refreshEpoch: Number(row.refresh_epoch),
  desired: row.desired as WatchedRuntime["desired"],
  observed: row.observed as WatchedRuntime["observed"],
  isBusy: row.is_busy as boolean,
  attempts: Number(row.recovery_attempts),
  dueInMillis: row.due_in_millis as number | null,
  runningForMillis: row.running_for_millis as number | null
})

const change = (what: string): string =>
  `update runtimes set ${what} where project_id = $1::bigint and generation = $2::bigint`

export const layer: Layer.Layer<AutoRecoveryStore, never, PluginDb> = Layer.effect(
  AutoRecoveryStore,
  Effect.map(PluginDb, (db) => {
    const write = (operation: string, what: string, runtime: Watched, ...more: ReadonlyArray<unknown>) =>
      Effect.asVoid(
        db.query({
          operation: `AutoRecoveryStore.${operation}`,
          text: change(what),
          parameters: [runtime.project, runtime.generation, ...more]
        })
      )
    return AutoRecoveryStore.of({
      watched: ({ after, limit, node }) =>
        Effect.map(
          db.query({
            operation: "AutoRecoveryStore.watched",
            text: watchedText,
            parameters: [node, after, limit]
          }),
          (rows) => rows.map(watchedOf)
        ),
      noteRunning: (runtime) =>
        write(
          "noteRunning",
          "running_since = coalesce(running_since, now()), recovery_due_at = null",
          runtime
        ),
      reset: (runtime) =>
        write("reset", "recovery_attempts = 0, recovery_due_at = null, running_since = null", runtime),
      schedule: (runtime, delaySeconds) =>
        write(
          "schedule",
          "recovery_due_at = now() + make_interval(secs => $3::int), running_since = null",
          runtime,
          delaySeconds
        ),
      count: (runtime) =>
        write(
          "count",
          "recovery_attempts = recovery_attempts + 1, recovery_due_at = null, running_since = null",
          runtime
        )
    })
  })
)
