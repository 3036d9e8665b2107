/** How closed buckets of the resource history come into their tables: many of them in one insert, none ever twice. */
import { bucketRows } from "./migrations/0021_history.ts"

type HistoryTable = "resource_samples" | "resource_rollups"

/**
 * Inserts what `source` selects, a bucket a row: project_id, its start, and its array. Buckets that are there already
 * are refused by the natural key. Source: SP-RES-05.
 */
export const insertClosedText = (table: HistoryTable, source: string): string => `
insert into ${table} as h (project_id, metric, bucket, minimum, maximum, total, samples)
  select closed.project_id, m.metric, closed.start, m.minimum, m.maximum, m.total, m.samples
  from (${source}) as closed (project_id, start, figures)
    cross join ${bucketRows("closed.figures")}
  where m.minimum is not null`

/** The same, and merges into the buckets that are there. It costs more, also where none is. */
export const mergeClosedText = (
  table: HistoryTable,
  source: string
): string => `${insertClosedText(table, source)}
on conflict (project_id, metric, bucket) do update set
  minimum = least(h.minimum, excluded.minimum),
  maximum = greatest(h.maximum, excluded.maximum),
  total = h.total + excluded.total,
  samples = h.samples + excluded.samples`
