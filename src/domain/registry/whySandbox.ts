/**
 * Reads what is on disk about one sandbox, from its record or from what its tombstone remembers, and tells the chain.
 * Asks no guest and changes nothing. Source: BX-02.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SandboxId } from "../Identity.ts"
import { RunState } from "../reclamation/RunState.ts"
import { provenanceOf } from "./provenance.ts"
import { Registry, SandboxNotFound } from "./Registry.ts"
import { explain } from "./why.ts"

/** The chain of a sandbox that is here, or was. Refused with `SandboxNotFound` where neither record nor tombstone is. */
export const whySandbox = Effect.fn("registry.whySandbox")(function* (sandbox: SandboxId) {
  const registry = yield* Registry
  const runState = yield* RunState
  const record = (yield* registry.inventory).get(sandbox)
  const tombstone = Option.getOrUndefined(yield* runState.readTombstone(sandbox))
  if (record === undefined && tombstone === undefined) return yield* new SandboxNotFound({ sandbox })
  // Behind a tombstone the identity's file is gone, and the tombstone remembers it.
  const identity = tombstone === undefined ? Option.getOrNull(yield* runState.readIdentity(sandbox)) : null
  const provenance = tombstone?.provenance ?? (record === undefined ? null : provenanceOf(record, identity))
  return explain({ sandbox, provenance, isCharged: record !== undefined, proof: tombstone?.proof ?? null })
})
