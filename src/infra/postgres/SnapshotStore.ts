/**
 * Adapter of the stored sample, which lives in three columns of the runtime's row:
 *
 *     refresh_epoch        grows whenever samples under way have to become stale: RuntimeStore.ts, settle_operation
 *     sample_started_at    begin of the latest accepted sample; only ever grows within a generation and epoch
 *     sample               metric -> { state, value, measuredAtMillis }, every metric present
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sampleTargetsMax } from "../../domain/Bounds.ts"
import { metrics } from "../../domain/history/History.ts"
import { Generation, type NodeId, type ProjectId, SandboxId } from "../../domain/Identity.ts"
import { PluginDb, PluginTx, type SqlRow } from "../../domain/persistence/PluginDb.ts"
import { type Sample, Snapshot } from "../../domain/sampling/Sample.ts"
import { SampleTargets, SnapshotStore } from "../../domain/sampling/SnapshotStore.ts"

type Db = PluginDb["Service"]

/** Compare and set in one statement; what a metric without a figure becomes is decided against the row it replaces. */
const compareAndSetText = `
update runtimes t set
  sample_started_at = to_timestamp($4::bigint / 1000.0),
  sample = (
    select jsonb_object_agg(m.metric, case
      when given.value is not null
        then jsonb_build_object('state', 'ready', 'value', given.value, 'measuredAtMillis', $4::bigint)
      when t.sample -> m.metric ->> 'value' is not null
        then t.sample -> m.metric || '{"state": "stale"}'
      else '{"state": "unavailable", "value": null, "measuredAtMillis": null}' end)
    from unnest($6::text[]) as m(metric)
      left join (select key as metric, value::bigint from jsonb_each_text($5::jsonb)) as given using (metric))
where t.project_id = $1::bigint and t.generation = $2::bigint and t.refresh_epoch = $3::bigint
  and t.observed <> 'deleted'
  and (t.sample_started_at is null or t.sample_started_at < to_timestamp($4::bigint / 1000.0)::timestamptz(3))
returning t.project_id`

const compareAndSet = (sample: Sample) =>
  PluginTx.use((tx) =>
    tx.query({
      operation: "SnapshotStore.compareAndSet",
      text: compareAndSetText,
      parameters: [
        sample.project,
        sample.generation,
        sample.refreshEpoch,
        sample.startedAtMillis,
        JSON.stringify(Object.fromEntries(sample.measured)),
        metrics
      ]
    })
  ).pipe(Effect.map((rows) => rows.length === 1))

const decodeSandbox = Schema.decodeUnknownSync(SandboxId)
const decodeGeneration = Schema.decodeUnknownSync(Generation)
const decodeSnapshot = Schema.decodeUnknownSync(Snapshot)

const targetOf = (row: SqlRow) => ({
  // A stored id is one that ProjectId let in.
  project: Number(row["project_id"]) as ProjectId,
  generation: decodeGeneration(Number(row["generation"])),
  refreshEpoch: Number(row["refresh_epoch"]),
  sandbox: decodeSandbox(row["sandbox_id"])
})

/** The clock is read with the targets; the left join answers it where there is no target. */
const runningText = `
select floor(extract(epoch from clock_timestamp()) * 1000)::float8 as now_millis,
  t.project_id, t.generation, t.refresh_epoch, t.sandbox_id
from (select) one left join (
  select * from runtimes
  where node_id = $1::uuid and observed = 'running' and sandbox_id is not null
  order by sample_started_at nulls first, project_id limit ${sampleTargetsMax}) t on true`

const running = (db: Db) => (node: NodeId) =>
  db.query({ operation: "SampleTargets.running", text: runningText, parameters: [node] }).pipe(
    Effect.map((rows) => ({
      nowMillis: Number(rows[0]?.["now_millis"]),
      targets: rows.filter((row) => row["project_id"] !== null).map(targetOf)
    }))
  )

const snapshot = (db: Db) => (project: ProjectId) =>
  db
    .query({
      operation: "SampleTargets.snapshot",
      text: `select (extract(epoch from sample_started_at) * 1000)::float8 as started_at_millis, sample
        from runtimes where project_id = $1::bigint and sample is not null`,
      parameters: [project]
    })
    .pipe(
      Effect.map(([row]) =>
        Option.map(Option.fromNullishOr(row), (found) =>
          decodeSnapshot({
            startedAtMillis: Math.round(Number(found["started_at_millis"])),
            readings: found["sample"]
          })
        )
      )
    )

const targets = Layer.effect(
  SampleTargets,
  PluginDb.use((db) => Effect.sync(() => SampleTargets.of({ running: running(db), snapshot: snapshot(db) })))
)

/** Both ports of the stored sample on the plugin's schema. */
export const layer: Layer.Layer<SnapshotStore | SampleTargets, never, PluginDb> = Layer.merge(
  targets,
  Layer.succeed(SnapshotStore, { compareAndSet })
)
