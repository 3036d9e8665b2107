/**
 * What sampling stores. The minute and the hour that are being filled stand in the runtime's own row, beside the sample
 * that is compared and set, so that one update of one row carries all of it; a bucket becomes rows when it is closed:
 *
 *     runtimes.sample_started_at, sample_epoch   the latest sample, and the refresh epoch that it was accepted under
 *     runtimes.readings, measured                its figures; measured is null for what the latest sample measured
 *     runtimes.open_minute, minute               the minute that is being filled
 *     runtimes.open_hour, hour                   the closed minutes of the hour; the open minute is not in it yet
 *     runtimes.closed_minute                     the minute that a new epoch closed last: it may be opened again
 *     resource_samples, resource_rollups         closed minutes and hours, natural key (project, metric, bucket)
 *     minute_history, hour_history               closed and open together: what every reader reads
 *     history_deletions                          Projects whose history is still to be deleted, in bounded passes
 *
 * A metric is a place, from 1, in `metric_names()`. Readings have an element a metric. A bucket begins with the number of
 * its samples and has four elements a metric: minimum, maximum, total, and how many of the samples have no figure, null
 * for none, since what is null takes no room. A metric that comes later is added at the end: what lies beyond the end of
 * an older array is null, as what was not measured is.
 *
 *     a sample of a later minute       inserts the minute, adds it to its hour, inserts the hour before that one
 *     another refresh epoch            the trigger inserts both and leaves nothing open
 *     the row is deleted               nothing is left open; the Project's history is handed to the prune passes
 *
 * Whoever inserts a closed bucket holds the runtime's row, so two never meet at one key.
 */

const names = [
  "cpu_usec",
  "memory_bytes",
  "memory_peak_bytes",
  "disk_bytes",
  "io_read_bytes",
  "io_write_bytes",
  "net_rx_bytes",
  "net_tx_bytes",
  "pids"
]
const places = names.map((_, at) => at + 1)
const namesText = names.map((name) => `'${name}'`).join(", ")

/** Elements of an array, one a metric. */
const each = (elements: (at: number) => string): string => `[${places.map(elements).join(", ")}]`

/** Where the figures of a metric stand in a bucket: minimum, maximum, total, and samples without a figure. */
const figuresOf = (at: number) => [4 * at - 2, 4 * at - 1, 4 * at, 4 * at + 1] as const

/** Samples of one bucket that a metric has no figure of: all of them before its first. */
const missedIn = (bucket: string, at: number): string => {
  const [minimum, , , missed] = figuresOf(at)
  return `coalesce(case when ${bucket}[${minimum}] is null then ${bucket}[1] else ${bucket}[${missed}] end, 0)`
}

const mergedFigures = (at: number): string => {
  const [minimum, maximum, total] = figuresOf(at)
  const known = `coalesce(a[${minimum}], b[${minimum}]) is not null`
  return [
    `least(a[${minimum}], b[${minimum}])`,
    `greatest(a[${maximum}], b[${maximum}])`,
    `coalesce(a[${total}] + b[${total}], a[${total}], b[${total}])`,
    `case when ${known} then nullif(${missedIn("a", at)} + ${missedIn("b", at)}, 0) end`
  ].join(", ")
}

/** Such a function is inlined where it is called with plain columns. */
const arrayFunction = (name: string, parameters: string, array: string): string =>
  `create function ${name}(${parameters}) returns bigint[] language sql immutable parallel safe
    as $$ select array${array}::bigint[] $$`

const arithmetic: ReadonlyArray<string> = [
  `create function metric_names() returns text[] language sql immutable parallel safe
    as $$ select array[${namesText}] $$`,
  arrayFunction(
    "merged_buckets",
    "a bigint[], b bigint[]",
    `[a[1] + b[1], ${places.map(mergedFigures).join(", ")}]`
  ),
  arrayFunction(
    "first_of",
    "a bigint[], b bigint[]",
    each((at) => `coalesce(a[${at}], b[${at}])`)
  ),
  // When the figures that the sample does not have were measured: null for those that it has.
  arrayFunction(
    "measured_before",
    "figures bigint[], readings bigint[], measured bigint[], sampled bigint",
    each(
      (at) =>
        `case when figures[${at}] is null and readings[${at}] is not null then coalesce(measured[${at}], sampled) end`
    )
  )
]

/**
 * Columns of the runtime's row. What a sample leaves alone stands before and behind what it changes, since only the
 * stretch between the first and the last changed byte is logged.
 */
export const sampleColumns = `sample_epoch bigint,
    closed_minute timestamptz(0),
    open_minute timestamptz(0),
    sample_started_at timestamptz(3),
    readings bigint[],
    measured bigint[],
    minute bigint[],
    open_hour timestamptz(0),
    hour bigint[]`

/** Compressed, or moved out of the row, the arrays would be so again with every sample. The recipe may be. */
const keptInTheRow = `alter table runtimes ${["readings", "measured", "minute", "hour"]
  .map((column) => `alter column ${column} set storage main`)
  .join(", ")}`

/** Identities are taken a thousand at a time by each connection: they are unique, and no order in time. */
const historyTable = (name: string): string => `create table ${name} (
  id bigint generated always as identity (cache 1000) unique,
  project_id bigint not null,
  bucket timestamptz(0) not null,
  minimum bigint not null,
  maximum bigint not null,
  total bigint not null,
  samples int not null check (samples > 0),
  metric smallint not null check (metric between 1 and ${names.length}),
  primary key (project_id, metric, bucket)
)`

/** The rows of one bucket in its array; those of metrics without a figure have none either. */
export const bucketRows = (bucket: string): string => {
  const [minimum, maximum, total, missed] = [-2, -1, 0, 1].map((from) => `${bucket}[4 * place + ${from}]`)
  return `lateral (select place::smallint as metric, ${minimum} as minimum, ${maximum} as maximum, ${total} as total,
        (${bucket}[1] - coalesce(${missed}, 0))::int as samples from generate_series(1, ${names.length}) as place) m`
}

/** A bucket that is closed a second time, since its machine was stopped and started within it, is merged into its row. */
const insertClosed = (table: string, start: string, bucket: string): string => `
    insert into ${table} as h (project_id, metric, bucket, minimum, maximum, total, samples)
      select old.project_id, m.metric, ${start}, m.minimum, m.maximum, m.total, m.samples
      from ${bucketRows(bucket)} where m.minimum is not null
    on conflict (project_id, metric, bucket) do update set
      minimum = least(h.minimum, excluded.minimum), maximum = greatest(h.maximum, excluded.maximum),
      total = h.total + excluded.total, samples = h.samples + excluded.samples;`

const hourOf = (minute: string): string => `date_bin('1 hour', ${minute}, timestamptz 'epoch')`

/**
 * Whatever makes samples stale closes what is open, in the same statement: no writer of a runtime has to think of it.
 * It stands before the update, so that the row is written once. A sample does not name the epoch and pays nothing.
 */
const closeOpenBuckets = `create function close_open_buckets() returns trigger language plpgsql as $$
  begin${insertClosed("resource_samples", "old.open_minute", "old.minute")}
    if old.open_hour is not null then${insertClosed("resource_rollups", "old.open_hour", "old.hour")}
    end if;${insertClosed("resource_rollups", hourOf("old.open_minute"), "old.minute")}
    new.closed_minute := old.open_minute;
    new.open_minute := null;
    new.minute := null;
    new.open_hour := null;
    new.hour := null;
    return new;
  end $$`

const closingTrigger = `create trigger runtimes_close_open_buckets before update of refresh_epoch on runtimes
  for each row when (old.refresh_epoch is distinct from new.refresh_epoch and old.open_minute is not null)
  execute function close_open_buckets()`

const openBucket = (start: string, bucket: string): string => `
    select r.project_id, m.metric, ${start}, m.minimum, m.maximum, m.total, m.samples
    from runtimes r cross join ${bucketRows(bucket)} where m.minimum is not null`

/** Closed and open rows of one bucket are one bucket. Conditions on Project, place and bucket reach the tables below. */
const historyView = (
  name: string,
  table: string,
  open: ReadonlyArray<string>
): string => `create view ${name} as
  select project_id, (metric_names())[place] as metric, place, bucket, min(minimum) as minimum, max(maximum) as maximum,
    sum(total) as total, sum(samples)::int as samples
  from (
    select project_id, metric as place, bucket, minimum, maximum, total, samples from ${table}
    union all${open.join(`
    union all`)}
  ) parts group by project_id, place, bucket`

/** Everything of sampling and history but the columns of runtimes, which is there already. */
export const historyStatements: ReadonlyArray<string> = [
  ...arithmetic,
  keptInTheRow,
  historyTable("resource_samples"),
  historyTable("resource_rollups"),
  "create index resource_samples_by_bucket on resource_samples (bucket)",
  "create index resource_rollups_by_bucket on resource_rollups (bucket)",
  `create table history_deletions (
    project_id bigint primary key,
    requested_at timestamptz(3) not null default now()
  )`,
  closeOpenBuckets,
  closingTrigger,
  historyView("minute_history", "resource_samples", [openBucket("r.open_minute", "r.minute")]),
  historyView("hour_history", "resource_rollups", [
    openBucket("r.open_hour", "r.hour"),
    openBucket(hourOf("r.open_minute"), "r.minute")
  ])
]
