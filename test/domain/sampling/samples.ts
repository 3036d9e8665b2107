/** Samples for the tests of sampling and history, from a partial description. */
import * as Effect from "effect/Effect"
import { Generation, type ProjectId } from "../../../src/domain/Identity.ts"
import { type SampleCandidate, validateSample } from "../../../src/domain/sampling/Sample.ts"
import { sql } from "../leases/fixture.ts"

/** A minute's begin, half an hour into its hour. */
export const baseMillis = Date.UTC(2026, 0, 15, 12, 30)

export const candidate = (partial: Partial<SampleCandidate> = {}): SampleCandidate => ({
  generation: Generation.make(1),
  refreshEpoch: 0,
  startedAtMillis: baseMillis,
  nowMillis: baseMillis + 1_000,
  values: { cpu_usec: 100, pids: 3 },
  ...partial
})

export const sampleOf = (project: ProjectId, partial: Partial<SampleCandidate> = {}) =>
  Effect.fromResult(validateSample(project, candidate(partial)))

/** What sampling keeps of the runtimes themselves. */
const runtimeColumns = `project_id::int, sample_started_at::text, sample_epoch::int, refresh_epoch::int, readings::text,
  measured::text, open_minute::text, minute::text, open_hour::text, hour::text, closed_minute::text`

/** Everything that sampling writes, in a comparable form: history as its readers see it, closed and open together. */
export const everythingStored = Effect.gen(function* () {
  const samples = yield* sql(`select ${runtimeColumns} from runtimes order by 1`)
  const columns = `project_id::int as project, metric, (extract(epoch from bucket) * 1000)::float8 as bucket,
    minimum::int, maximum::int, total::int, samples`
  const minutes = yield* sql(`select ${columns} from minute_history order by 1, 2, 3`)
  const hours = yield* sql(`select ${columns} from hour_history order by 1, 2, 3`)
  const closed = yield* sql(`select 'minute' as kind, ${columns} from resource_samples
    union all select 'hour', ${columns} from resource_rollups order by 1, 2, 3, 4`)
  return { samples, minutes, hours, closed }
})
