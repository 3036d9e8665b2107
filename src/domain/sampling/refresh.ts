/**
 * Recording one sample: validate it, then hand it to the next batch. Whatever a sample writes, latest figures, minute
 * and hour, is written by one statement or not at all, and a sample that comes too late writes nothing.
 */
import * as Effect from "effect/Effect"
import type { ProjectId } from "../Identity.ts"
import { type SampleCandidate, validateSample } from "./Sample.ts"
import { SampleBatches } from "./SampleBatches.ts"

/**
 * Offers a sample of a runtime, and answers what waits for its end. Refused with `SampleRefused` before anything is
 * opened, and with `SampleOffersFull`. The end: see `SampleBatches.offer`. Source: SP-RES-01.
 */
export const offerSample = Effect.fn("sampling.offerSample")(function* (
  project: ProjectId,
  candidate: SampleCandidate
) {
  const sample = yield* Effect.fromResult(validateSample(project, candidate))
  return yield* (yield* SampleBatches).offer(sample)
})

/** Offers a sample and waits for its end. Fails with `SampleStale` when a newer generation, epoch or sample is stored. */
export const recordSample = (project: ProjectId, candidate: SampleCandidate) =>
  Effect.flatten(offerSample(project, candidate))
