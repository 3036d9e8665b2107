/**
 * Adapter of the host's deletion records, in schema `core`. Both transactions lock the Project's row first, so that
 * they wait for one another and never cross. Completed records keep their newest rows.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  deletionOperatorRetrySeconds,
  deletionRecordsMax,
  deletionsPageMax,
  deletionUnattendedTriesMax
} from "../../domain/Bounds.ts"
import { DeletionRecord, DeletionStore } from "../../domain/host/DeletionStore.ts"
import { ProjectId } from "../../domain/Identity.ts"
import { PluginDb, PluginTx, type SqlRow } from "../../domain/persistence/PluginDb.ts"
import { accessRefusal } from "./HostAccounts.ts"
import { firstOf } from "./rows.ts"

const columns = `project_id, project_name, state, participants, completed_steps, confirmed_paths, proofs, failure_code, attempts`

const recordOf = (row: SqlRow): DeletionRecord =>
  new DeletionRecord({
    project: ProjectId.make(Number(row["project_id"])),
    name: row["project_name"] as string,
    state: row["state"] as DeletionRecord["state"],
    participants: row["participants"] as ReadonlyArray<string>,
    completedSteps: row["completed_steps"] as ReadonlyArray<string>,
    confirmedPaths: row["confirmed_paths"] as ReadonlyArray<string>,
    proofs: row["proofs"] as ReadonlyArray<string>,
    failureCode: row["failure_code"] as string | null,
    attempts: Number(row["attempts"])
  })

const ownerText = "select core.require_owner($1::bigint, $2::uuid)"

const lockText = "select from core.projects where id = $1::bigint for update"

const admitText = `with project as (
    update core.projects set lifecycle = 'deleting' where id = $1::bigint returning id, tenant_id, name)
  insert into core.project_deletions as d
      (project_id, tenant_id, project_name, state, participants, confirmed_paths, requested_by)
    select id, tenant_id, name, 'pending', $2::text[], $3::text[], $4::uuid from project
  on conflict (project_id) do update
    set failure_code = null, attempts = 0, failed_at = null, confirmed_paths = array(
      select distinct path from unnest(d.confirmed_paths || excluded.confirmed_paths) as path order by path)
    where d.state = 'pending'
  returning ${columns}`

const byProjectText = `select ${columns} from core.project_deletions where project_id = $1::bigint`

const dueText = `select ${columns} from core.project_deletions
  where state = 'pending' and (attempts < $3::int or failed_at <= now() - make_interval(secs => $4::int)) and ($1::bigint is null or (requested_at, project_id) > (
    select requested_at, project_id from core.project_deletions where project_id = $1::bigint))
  order by requested_at, project_id limit $2::int`

const needingOperatorText = `select count(*)::int as count from core.project_deletions
  where state = 'pending' and attempts >= $1::int`

const completeStepText = `update core.project_deletions
  set completed_steps = completed_steps || $2::text, proofs = proofs || $3::text::jsonb, failure_code = null,
    attempts = 0, failed_at = null
  where project_id = $1::bigint and state = 'pending' and not $2::text = any (completed_steps)`

const noteFailureText = `update core.project_deletions
  set failure_code = $2::text, attempts = attempts + 1, failed_at = now()
  where project_id = $1::bigint and state = 'pending' returning attempts`

const finalizeText = `update core.project_deletions
  set state = 'completed', completed_at = now(), failure_code = null, attempts = 0, failed_at = null
  where project_id = $1::bigint and state = 'pending' and participants <@ completed_steps
  returning ${columns}`

const membershipsText = "delete from core.memberships where project_id = $1::bigint"

const projectText = "delete from core.projects where id = $1::bigint"

const trimText = `delete from core.project_deletions where project_id in (
  select project_id from core.project_deletions where state = 'completed'
  order by completed_at desc, project_id desc offset $1::int)`

const inTx = (operation: string, text: string, parameters: ReadonlyArray<unknown>) =>
  Effect.flatMap(PluginTx, (tx) =>
    tx.query({ operation: `DeletionStore.${operation}`, text, parameters })
  ).pipe(Effect.catchTag("TransactionEnded", (ended) => Effect.die(ended)))

type Admission = Parameters<DeletionStore["Service"]["admit"]>[0]

const admit = Effect.fnUntraced(function* ({ caller, confirmedPaths, participants, project }: Admission) {
  // The row's lock comes first: it waits for every transaction that holds the Project active.
  yield* inTx("lock", lockText, [project])
  yield* Effect.catchTag(inTx("owner", ownerText, [project, caller.account]), "StorageFailure", (failure) =>
    Effect.fail(accessRefusal(caller, project)(failure))
  )
  const [row] = yield* inTx("admit", admitText, [project, participants, confirmedPaths, caller.account])
  if (row !== undefined) return recordOf(row)
  return yield* Effect.die(new Error("a Project that exists has no pending deletion after its admission"))
})

const finalize = Effect.fnUntraced(function* (project: ProjectId) {
  yield* inTx("lock", lockText, [project])
  const [finalized] = yield* inTx("finalize", finalizeText, [project])
  if (finalized === undefined) {
    const [record] = yield* inTx("completed", byProjectText, [project])
    if (record?.["state"] === "completed") return recordOf(record)
    return yield* Effect.die(new Error("a deletion was finalized before all of its steps were completed"))
  }
  yield* inTx("memberships", membershipsText, [project])
  yield* inTx("project", projectText, [project])
  yield* inTx("trim", trimText, [deletionRecordsMax])
  return recordOf(finalized)
})

export const layer: Layer.Layer<DeletionStore, never, PluginDb> = Layer.effect(
  DeletionStore,
  Effect.map(PluginDb, (db) => {
    const query = (operation: string, text: string, parameters: ReadonlyArray<unknown>) =>
      db.query({ operation: `DeletionStore.${operation}`, text, parameters })
    return DeletionStore.of({
      requireOwner: (caller, project) =>
        query("requireOwner", ownerText, [project, caller.account]).pipe(
          Effect.mapError(accessRefusal(caller, project)),
          Effect.asVoid
        ),
      admit: (admission) => db.transaction("DeletionStore.admit", admit(admission)),
      byProject: (project) =>
        Effect.map(query("byProject", byProjectText, [project]), (rows) => firstOf(rows, recordOf)),
      due: (after) =>
        Effect.map(
          query("due", dueText, [
            after,
            deletionsPageMax,
            deletionUnattendedTriesMax,
            deletionOperatorRetrySeconds
          ]),
          (rows) => rows.map(recordOf)
        ),
      needingOperator: Effect.map(
        query("needingOperator", needingOperatorText, [deletionUnattendedTriesMax]),
        ([row]) => Number(row?.["count"])
      ),
      completeStep: (project, { participant, proofs }) =>
        Effect.asVoid(
          query("completeStep", completeStepText, [project, participant, JSON.stringify(proofs)])
        ),
      noteFailure: (project, code) =>
        Effect.map(query("noteFailure", noteFailureText, [project, code]), ([row]) =>
          Number(row?.["attempts"] ?? 0)
        ),
      finalize: (project) => db.transaction("DeletionStore.finalize", finalize(project))
    })
  })
)
