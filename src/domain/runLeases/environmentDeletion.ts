/**
 * Deleting an environment: first what its leases keep alive is destroyed, then the row goes, unless a lease of it is not
 * over. Nothing that is owed at a provider is lost with it. Source: RL-DESTROY-05 to -07, RL-FENCE-04.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Environment } from "../environments/Environment.ts"
import { EnvironmentStore } from "../environments/EnvironmentStore.ts"
import { EnvironmentId } from "../Identity.ts"
import { EnvironmentRuntime } from "./EnvironmentRuntime.ts"

/** Leases of the environment are not over: those of live runs, and what could not be destroyed yet. */
export class EnvironmentInUse extends Schema.TaggedError<EnvironmentInUse>()("EnvironmentInUse", {
  environment: EnvironmentId,
  destroyed: Schema.Int,
  failed: Schema.Int,
  skippedLiveRun: Schema.Int
}) {
  readonly code = "environment_in_use"
  override get message(): string {
    return `environment ${this.environment} is in use: ${this.destroyed} leases were destroyed, ${this.failed} could not be, ${this.skippedLiveRun} are held by live runs; see lease list, then delete it again`
  }
}

/** Deletes it and answers how many leases were destroyed for it; refused with `EnvironmentInUse`. */
export const deleteEnvironment = Effect.fn("runLeases.deleteEnvironment")(function* ({ id }: Environment) {
  const counts = yield* EnvironmentRuntime.use((runtime) =>
    runtime.destroyReusableSandboxLeasesForEnvironment({ environment: id })
  )
  const removed = yield* EnvironmentStore.use((store) => store.removeIfDeletable(id))
  if (Option.isNone(removed)) return yield* new EnvironmentInUse({ environment: id, ...counts })
  return counts
})
