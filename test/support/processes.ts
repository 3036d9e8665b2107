/** What tests ask of real processes. */
import * as Effect from "effect/Effect"
import { observeProcess } from "../../src/infra/guests/kernel.ts"
import { waitFor } from "./waiting.ts"

/** Ended, or no more than a zombie. */
export const isGone = (pid: number): boolean => observeProcess(pid) === undefined

/** Waits until all of them are gone. */
export const untilGone = (...pids: ReadonlyArray<number>) =>
  waitFor({
    fact: `processes ${pids.join(", ")} are gone`,
    look: Effect.sync(() => pids.every(isGone)),
    holds: (gone) => gone,
    deadlineMillis: 10_000
  })
