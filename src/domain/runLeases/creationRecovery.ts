/**
 * Finding what was created by an acquisition that never got its answer: the process ended, or the answer was lost. Its
 * intent says under which name the provider was asked; what the provider lists under that name becomes a row that owes its
 * cleanup, and what it does not list in two observations apart was never made. Source: FC-02, BX-01, BX-03.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { providerIntentGraceSeconds, providerOrphanGraceMillis } from "../Bounds.ts"
import type { Environment } from "../environments/Environment.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import type { ProviderIntent } from "../environments/ProviderIntent.ts"
import { EnvironmentStore } from "../environments/EnvironmentStore.ts"
import { parseProcessIdentity } from "../Identity.ts"
import { Processes } from "../Processes.ts"
import { LostCreations } from "./LostCreations.ts"
import { findTarget } from "./providerTargets.ts"
import { heldUnderLabel } from "./providerVerbs.ts"
import { unrecordedLease } from "./unrecordedLease.ts"

type AgedIntent = ProviderIntent & { readonly ageMillis: number }

/** Nobody waits for the answer any more. One of a process elsewhere is that process's to see to. */
const isLost = Effect.fnUntraced(function* ({ ageMillis, id, process }: AgedIntent) {
  if (ageMillis < providerIntentGraceSeconds * 1000) return false
  if (yield* LostCreations.use((lost) => lost.isNoted(id))) return true
  const liveness = yield* Processes.use((processes) => processes.liveness(parseProcessIdentity(process)))
  return liveness === "dead"
})

/** The intent as a row that owes a cleanup would say it; the provider's id is not known yet. */
const leaseOf = (intent: ProviderIntent, environment: Environment | undefined): EnvironmentLease => {
  const { id, plugin, provider, run, tenant } = intent
  const isOfPluginDriver = environment?.driver === "plugin"
  return unrecordedLease({
    id,
    tenant,
    environment: environment ?? null,
    environmentId: intent.environment,
    run,
    provider,
    pin:
      plugin === null
        ? {}
        : { pluginId: plugin, ...(isOfPluginDriver ? {} : { sandboxProviderPlugin: true }) },
    failureReason: "creation_lost"
  })
}

/** `waiting`: the provider cannot be asked now, or what it does not list was seen missing only once. */
type Outcome = "found" | "dropped" | "waiting"

const recordFound = Effect.fnUntraced(function* (lease: EnvironmentLease, providerLeaseId: string) {
  const { environment, executionWorkspace, id, metadata, run, sentConfig, task, tenant } = lease
  const orphan = {
    id,
    tenant,
    environment,
    executionWorkspace,
    task,
    run,
    provider: lease.provider ?? "",
    providerLeaseId,
    metadata,
    sentConfig,
    failureReason: "creation_lost"
  }
  yield* EnvironmentLeaseStore.use((store) => store.insertPendingCleanupLease(orphan))
  yield* LostCreations.use((lost) => lost.forget(id))
  return "found" satisfies Outcome as Outcome
})

const noteAbsent = Effect.fnUntraced(function* ({ id }: EnvironmentLease) {
  const lost = yield* LostCreations
  if ((yield* lost.observeAbsence(id)) < providerOrphanGraceMillis)
    return "waiting" satisfies Outcome as Outcome
  yield* EnvironmentLeaseStore.use((store) => store.dropIntent(id))
  yield* lost.forget(id)
  return "dropped" satisfies Outcome as Outcome
})

const resolve = Effect.fnUntraced(function* (intent: ProviderIntent) {
  const found = yield* EnvironmentStore.use((environments) => environments.getById(intent.environment))
  const lease = leaseOf(intent, Option.getOrUndefined(found))
  const target = yield* findTarget(lease, "own")
  const held = Option.isNone(target) ? undefined : yield* heldUnderLabel(lease, target.value)
  if (held === undefined) return "waiting" satisfies Outcome as Outcome
  const made = held.find(({ intentName }) => intentName === intent.name)
  return yield* made === undefined ? noteAbsent(lease) : recordFound(lease, made.providerLeaseId)
})

/**
 * One pass over the oldest intents. Answers what became of those that are lost; the rest belong to acquisitions under way.
 * Fails only where the database does.
 */
export const recoverLostCreations = Effect.fn("runLeases.recoverLostCreations")(function* () {
  const intents = yield* Effect.flatMap(EnvironmentLeaseStore, (store) => store.intents)
  const lost = yield* Effect.filter(intents, isLost)
  const outcomes = yield* Effect.forEach(lost, resolve)
  const count = (outcome: Outcome) => outcomes.filter((each) => each === outcome).length
  return { found: count("found"), dropped: count("dropped"), waiting: count("waiting") }
})
