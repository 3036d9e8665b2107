/**
 * What a run costs the server: the time of its processes on a CPU, and the bytes of WAL. Both are read before and after
 * the run; what checkpoints and autovacuum did meanwhile is in them.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Files from "node:fs"
import type { Figures } from "./definition.ts"
import { type PlainSettings, plainClient } from "./plainPg.ts"

const serverPid = (postmaster: number): ReadonlyArray<number> => {
  const children = Files.readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, "utf8")
  return [postmaster, ...children.split(" ").filter(Boolean).map(Number)]
}

/** Nanoseconds on a CPU of each process, by its id. One that has ended meanwhile is left out. */
const cpuNanos = (postmaster: number): ReadonlyMap<number, number> => {
  const all = new Map<number, number>()
  for (const pid of serverPid(postmaster)) {
    try {
      all.set(pid, Number(Files.readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]))
    } catch {
      continue
    }
  }
  return all
}

const look = "select pg_current_wal_insert_lsn()::text as lsn, current_setting('data_directory') as directory"

/** Runs and adds `serverMicros` and `walBytes` of one operation, counted over all that the run did. */
export const withServerCost = <E, R>(
  settings: PlainSettings,
  run: Effect.Effect<Figures, E, R>
): Effect.Effect<Figures, E | Error, R | Scope.Scope> =>
  Effect.gen(function* () {
    const client = yield* plainClient(settings)
    const asked = (text: string) => Effect.promise(() => client.query(text))
    const [before] = (yield* asked(look)).rows
    const postmaster = Number(
      Files.readFileSync(`${String(before?.["directory"])}/postmaster.pid`, "utf8").split("\n")[0]
    )
    const nanosBefore = cpuNanos(postmaster)
    const figures = yield* run
    // Connections that the run has opened and closed are gone: their time is counted while they live.
    const nanosAfter = cpuNanos(postmaster)
    const { rows } = yield* asked(
      `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '${String(before?.["lsn"])}')::float8 as bytes`
    )
    let nanos = 0
    for (const [pid, after] of nanosAfter) nanos += after - (nanosBefore.get(pid) ?? 0)
    const operations = figures["operationsAll"] ?? Number.NaN
    return {
      ...figures,
      serverMicros: nanos / 1_000 / operations,
      walBytes: Number(rows[0]?.["bytes"]) / operations
    }
  })
