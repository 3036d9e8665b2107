/** Part of OperationRows: where live operations stand in their queue, one statement for all of them. Source: FC-06. */
import * as Effect from "effect/Effect"
import { operationsAheadCountedMax } from "../../domain/Bounds.ts"
import type { NodeId } from "../../domain/Identity.ts"
import type { OperationRows } from "../../domain/operations/OperationStore.ts"
import type { QueueSight } from "../../domain/operations/waiting.ts"
import type { SqlRow } from "../../domain/persistence/PluginDb.ts"
import type { joinOrOwn } from "./rows.ts"

/**
 * What is ahead are the older live rows that a daemon of the same node would carry out, counted to a bound. A claimed
 * operation is looked for at the node of its claimant.
 */
const queueSightsText = `with wanted as (
    select l.row_id, o.id, l.queued_at, l.node_id as needed,
      case when o.state = 'claimed' then split_part(o.claimed_by, '/', 2)::uuid else l.node_id end as node
      from live_operations l join runtime_operations o on o.row_id = l.row_id where o.id = any ($1::uuid[])
  ) select w.id, w.node, w.queued_at, n.name, n.last_seen_at,
    extract(epoch from clock_timestamp() - n.last_seen_at)::float8 as unseen_seconds,
    (select extract(epoch from clock_timestamp() - max(last_seen_at))::float8 from nodes) as all_unseen_seconds,
    (select count(*)::int from (select from live_operations a
      where a.row_id < w.row_id and (a.node_id is null or a.node_id = w.needed) limit $2::int) counted) as ahead
  from wanted w left join nodes n on n.id = w.node`

const sightOf = (row: SqlRow): QueueSight => ({
  operation: row["id"] as QueueSight["operation"],
  queuedAtMillis: (row["queued_at"] as Date).getTime(),
  node:
    row["node"] === null
      ? null
      : {
          id: row["node"] as NodeId,
          name: row["name"] as string | null,
          lastSeenAtMillis: row["last_seen_at"] === null ? null : (row["last_seen_at"] as Date).getTime(),
          unseenSeconds: row["unseen_seconds"] as number | null
        },
  allUnseenSeconds: row["all_unseen_seconds"] as number | null,
  ahead: row["ahead"] as number
})

export const queueSights =
  (run: ReturnType<typeof joinOrOwn>): OperationRows["Service"]["queueSights"] =>
  (operations) =>
    run({
      operation: "OperationRows.queueSights",
      text: queueSightsText,
      parameters: [operations, operationsAheadCountedMax]
    }).pipe(Effect.map((rows) => rows.map(sightOf)))
