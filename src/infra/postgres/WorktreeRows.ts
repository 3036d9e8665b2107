/** Adapter of WorktreeRows: one statement a method, in the caller's transaction where there is one. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { projectWorktreesMax } from "../../domain/Bounds.ts"
import {
  PluginDb,
  type SqlRow,
  type StorageFailure,
  type TransactionEnded
} from "../../domain/persistence/PluginDb.ts"
import { Worktree } from "../../domain/worktrees/Worktree.ts"
import { WorktreeRows } from "../../domain/worktrees/WorktreeRows.ts"
import { firstOf, joinOrOwn } from "./rows.ts"

/** Validated by the schema when it was written. */
const worktreeOf = (row: SqlRow): Worktree =>
  new Worktree({
    rowId: Number(row.row_id),
    project: Number(row.project_id) as Worktree["project"],
    repository: row.repository as Worktree["repository"],
    name: row.name as Worktree["name"],
    branch: row.branch as Worktree["branch"],
    isBegun: row.is_begun as boolean,
    branchBase: row.branch_base as string | null,
    state: row.state as Worktree["state"],
    isDisposable: row.is_disposable as boolean,
    generation: Number(row.generation) as Worktree["generation"],
    claim: row.claim_id as Worktree["claim"],
    account: row.account_id as Worktree["account"],
    removedBy: row.removed_by as string | null,
    reason: row.reason as string | null,
    createdAtMillis: (row.created_at as Date).getTime()
  })

/** One row says which: the new one, or whether there is room. */
const insertText = `with room as (
    select ${projectWorktreesMax} > (select count(*) from (
      select from worktrees where project_id = $1::bigint limit ${projectWorktreesMax}) counted) as is_there),
  inserted as (
    insert into worktrees (project_id, repository, name, branch, generation, claim_id, account_id)
      select $1::bigint, $2::text, $3::text, $4::text, $5::bigint, $6::uuid, $7::uuid from room where room.is_there
      on conflict (project_id, name) do nothing returning *)
  select inserted.*, room.is_there from room left join inserted on true`

/** The row of whoever holds the claim, and no later one's. */
const held = "row_id = $1::bigint and claim_id = $2::uuid"
const change = (what: string): string => `update worktrees set ${what} returning *`

const noteMakingText = change(`is_begun = $3::boolean, branch_base = $4::text
  where ${held} and state = 'creating'`)
const markReadyText = change(`state = 'ready', branch_base = null where ${held} and state = 'creating'`)
const markRemovingText = change(`state = 'removing', claim_id = $3::uuid, generation = $4::bigint,
  removed_by = $5::text, reason = $6::text, is_disposable = $7::boolean
  where project_id = $1::bigint and name = $2::text and state = 'ready'`)
const takeOverText = change(`claim_id = $3::uuid, generation = $4::bigint, state = 'removing',
  removed_by = coalesce(removed_by, $5::text), reason = coalesce(reason, $6::text),
  is_disposable = case when state = 'creating' then $7::boolean else is_disposable end
  where ${held} and state in ('creating', 'removing') and exists (
    select from repository_claims c where c.id = $3::uuid
      and c.project_id = worktrees.project_id and c.repository = worktrees.repository)`)
const markDisposableText = change(`is_disposable = true where ${held} and state = 'removing'`)
const keepText = change(`state = 'ready', removed_by = null, reason = null
  where ${held} and state = 'removing' and not is_disposable`)
const removeText = `delete from worktrees where ${held} and state = 'removing' returning *`

const unfinishedText = `select w.* from worktrees w join runtimes r on r.project_id = w.project_id
  where w.state <> 'ready' and w.row_id > $2::bigint and r.node_id = $1::uuid and r.observed = 'running'
  order by w.row_id limit $3::int`

type Service = WorktreeRows["Service"]
type Ask = (
  operation: string,
  text: string,
  parameters: ReadonlyArray<unknown>
) => Effect.Effect<ReadonlyArray<SqlRow>, StorageFailure | TransactionEnded>

const makeReads = (ask: Ask): Pick<Service, "ofProject" | "byName" | "unfinishedOf" | "unfinished"> => {
  const all = (...given: Parameters<Ask>) => Effect.map(ask(...given), (rows) => rows.map(worktreeOf))
  return {
    ofProject: (project) =>
      all("ofProject", "select * from worktrees where project_id = $1::bigint order by row_id", [project]),
    byName: (project, name) =>
      Effect.map(
        ask("byName", "select * from worktrees where project_id = $1::bigint and name = $2::text", [
          project,
          name
        ]),
        (rows) => firstOf(rows, worktreeOf)
      ),
    unfinishedOf: (project, repository) =>
      all(
        "unfinishedOf",
        `select * from worktrees
          where project_id = $1::bigint and repository = $2::text and state <> 'ready' order by row_id`,
        [project, repository]
      ),
    unfinished: ({ after, limit, node }) => all("unfinished", unfinishedText, [node, after, limit])
  }
}

const makeWrites = (ask: Ask): Omit<Service, keyof ReturnType<typeof makeReads>> => {
  const moved = (...given: Parameters<Ask>) => Effect.map(ask(...given), (rows) => rows.length > 0)
  const changed = (...given: Parameters<Ask>) =>
    Effect.map(ask(...given), (rows) => firstOf(rows, worktreeOf))
  return {
    insert: ({ account, branch, claim, generation, name, project, repository }) =>
      Effect.map(
        ask("insert", insertText, [project, repository, name, branch, generation, claim, account]),
        ([row]) => {
          if (row?.is_there !== true) return "worktrees_full"
          return row.row_id === null ? "worktree_exists" : worktreeOf(row)
        }
      ),
    noteMaking: ({ claim, rowId }, { branchBase, isBegun }) =>
      moved("noteMaking", noteMakingText, [rowId, claim, isBegun, branchBase]),
    markReady: ({ claim, rowId }) => changed("markReady", markReadyText, [rowId, claim]),
    markRemoving: (project, name, { by, claim, generation, isDisposable, reason }) =>
      changed("markRemoving", markRemovingText, [project, name, claim, generation, by, reason, isDisposable]),
    takeOver: (seen, { by, claim, generation, isDisposable, reason }) =>
      changed("takeOver", takeOverText, [
        seen.rowId,
        seen.claim,
        claim,
        generation,
        by,
        reason,
        isDisposable
      ]),
    markDisposable: ({ claim, rowId }) => moved("markDisposable", markDisposableText, [rowId, claim]),
    keep: ({ claim, rowId }) => moved("keep", keepText, [rowId, claim]),
    remove: ({ claim, rowId }) => moved("remove", removeText, [rowId, claim]),
    clear: (project) =>
      Effect.asVoid(ask("clear", "delete from worktrees where project_id = $1::bigint", [project]))
  }
}

export const layer: Layer.Layer<WorktreeRows, never, PluginDb> = Layer.effect(
  WorktreeRows,
  Effect.map(PluginDb, (db) => {
    const run = joinOrOwn(db)
    const ask: Ask = (operation, text, parameters) =>
      run({ operation: `WorktreeRows.${operation}`, text, parameters })
    return WorktreeRows.of({ ...makeReads(ask), ...makeWrites(ask) })
  })
)
