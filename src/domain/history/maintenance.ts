/**
 * Upkeep of the resource history: bounded passes that remove what has expired and what deleted Projects left, and
 * the bounded read for a chart. A look that assigns no transaction id comes before every pass.
 */
import * as Effect from "effect/Effect"
import { historyPrunePassesMax } from "../Bounds.ts"
import type { ProjectId } from "../Identity.ts"
import { PluginDb } from "../persistence/PluginDb.ts"
import { type HistoryRange, HistoryRangeRefused, isReadable } from "./History.ts"
import { HistoryReader, HistoryStore } from "./HistoryStore.ts"

/** One pass: no transaction where nothing is to be done, else one of at most 1,000 rows. Source: SP-RES-07, SP-RES-08. */
export const prunePass = Effect.fn("history.prunePass")(function* () {
  const reader = yield* HistoryReader
  if (!(yield* reader.pruneWorkExists)) return { worked: false, removed: 0, forgotten: 0 }
  const db = yield* PluginDb
  const store = yield* HistoryStore
  return { worked: true, ...(yield* db.transaction("history.prunePass", store.prune)) }
})

/** Passes until nothing is left that a pass can take, at most `historyPrunePassesMax`; answers the rows removed. */
export const pruneHistory = Effect.fn("history.pruneHistory")(function* () {
  let removed = 0
  for (let passes = 0; passes < historyPrunePassesMax; passes += 1) {
    const pass = yield* prunePass()
    removed += pass.removed
    if (pass.removed + pass.forgotten === 0) break
  }
  return removed
})

/** The points of a chart. Refused with `HistoryRangeRefused`; access is the caller's business. */
export const readHistory = Effect.fn("history.readHistory")(function* (
  project: ProjectId,
  range: HistoryRange
) {
  if (!isReadable(range)) {
    const { fromMillis, resolution, toMillis } = range
    return yield* new HistoryRangeRefused({ fromMillis, resolution, toMillis })
  }
  return yield* (yield* HistoryReader).read(project, range)
})
