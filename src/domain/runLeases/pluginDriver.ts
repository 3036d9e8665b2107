/**
 * The driver `plugin`: environments that a plugin carries as a whole. Unlike a sandbox it lives from the environment's
 * present config, keeps what the provider returns apart from the host's keys, and is never come back to by another run.
 * Source: RL-DRIVER-02 to -05, RL-REUSE-21, U13.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { executionBudgetMillis, pluginAcquisitionBudgetMillis } from "../environments/budget.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { judgeReply, provedState, terminationEvidence } from "../environments/receipts.ts"
import type { JsonObject } from "../Json.ts"
import { scrubMetadata } from "../secrets/scrubbing.ts"
import { acquisitionParams } from "./acquisitionParams.ts"
import { type DriverNeeds, driverNeeds } from "./DriverNeeds.ts"
import type {
  Acquisition,
  Destruction,
  EnvironmentDriver,
  Execution,
  LeaseInPlace,
  Release
} from "./EnvironmentDriver.ts"
import type { DriverMaker } from "./EnvironmentDrivers.ts"
import { commandParams, commandResult } from "./execution.ts"
import { targetInUse } from "./leaseTarget.ts"
import {
  callAboutLease,
  callPlugin,
  driverConfigOf,
  openDriverConfig,
  pluginInUse,
  pluginNamedBy
} from "./pluginCalls.ts"
import { callEnding } from "./providerVerbs.ts"
import { provisionLease } from "./provisioning.ts"
import { type Realization, realizedWorkspace, workspaceParam } from "./realization.ts"
import { judgeResumption, preserved, resumeMethod } from "./resumption.ts"
import { TeardownUnconfirmed } from "./RunLeaseErrors.ts"
import { TraceParents } from "./TraceParents.ts"
import { awaitWorker } from "./workerReadiness.ts"

const acquire = Effect.fnUntraced(function* (asked: Acquisition) {
  const { entry, plugin } = yield* pluginNamedBy(asked.environment)
  const { configSchema, defaultAcquireTimeoutMs, driverKey, supportsIntents } = entry
  const workers = yield* awaitWorker(driverKey, plugin.id)
  const { config, values } = yield* openDriverConfig(asked.tenant, asked.environment, configSchema)
  const sentConfig = driverConfigOf(asked.environment)
  const params = acquisitionParams(asked, driverKey, config)
  return yield* provisionLease<never>({
    asked,
    provider: driverKey,
    plugin: plugin.id,
    keepsIntents: supportsIntents === true,
    sentConfig,
    values,
    policy: "ephemeral",
    create: (intent) =>
      callPlugin(
        { plugin: plugin.id, workers },
        "environmentAcquireLease",
        supportsIntents === true ? { ...params, intent } : params,
        pluginAcquisitionBudgetMillis(defaultAcquireTimeoutMs)
      ),
    metadataOf: (returned) => ({
      driver: "plugin",
      executionWorkspaceMode: asked.executionWorkspace?.mode ?? null,
      pluginId: plugin.id,
      pluginKey: plugin.pluginKey,
      driverKey,
      providerMetadata: scrubMetadata(returned, { config: sentConfig, values, schema: configSchema ?? {} })
    }),
    stamps: { ...asked.note }
  })
})

/** Sends a teardown and judges its reply; the evidence, where a receipt matched. Source: RL section 5.3. */
const tearDown = Effect.fnUntraced(function* (verb: "release" | "destroy", lease: EnvironmentLease) {
  const answer = yield* callEnding({ verb, lease, target: yield* targetInUse(lease) })
  if (answer._tag === "Failed") return yield* Effect.fail(answer.error)
  if (answer._tag === "NotSent") return yield* new TeardownUnconfirmed({ lease: lease.id, why: answer.why })
  const verdict = judgeReply(verb, lease.providerLeaseId ?? "", answer.reply)
  if (verdict === "Unconfirmed")
    return yield* new TeardownUnconfirmed({ lease: lease.id, why: "not_confirmed" })
  return verdict === "Matching" ? terminationEvidence(lease, provedState(verb)) : {}
})

/** Ends the row; none where it was not this caller's to end any more. */
const end = (
  lease: EnvironmentLease,
  status: Release["status"],
  metadata: JsonObject,
  { actor, reason }: { readonly actor: string; readonly reason: string | null }
) =>
  EnvironmentLeaseStore.use((store) =>
    store.releaseLease(lease.id, {
      status,
      failureReason: reason,
      cleanupStatus: "success",
      metadata,
      actor,
      ...(lease.run === null ? {} : { run: lease.run })
    })
  )

/** Whatever else is asked for, the lease is released; only an expiry or a wish to destroy destroys. Source: U13. */
const release = Effect.fnUntraced(function* ({ disposition, ending, lease, status }: Release) {
  const isEnd = disposition === "destroy" || status === "expired"
  const evidence = yield* tearDown(isEnd ? "destroy" : "release", lease)
  return Option.getOrNull(
    yield* end(lease, isEnd ? "expired" : status, evidence, ending ?? { actor: "run", reason: null })
  )
})

/** The resource goes and the row says `failed`. Source: RL-DRIVER-04, 5.2 #22. */
const destroy = Effect.fnUntraced(function* ({ ending, lease }: Destruction) {
  const evidence = yield* tearDown("destroy", lease)
  const row = yield* end(lease, "failed", evidence, ending ?? { actor: "caller", reason: null })
  return Option.getOrElse(row, () => lease)
})

/**
 * What is resumed is the lease's own resource or nothing, and only while the living worker lists the verb.
 * Source: RL-CAP-07, RL-DRIVER-04, U4.
 */
const resume = Effect.fnUntraced(function* (place: LeaseInPlace) {
  const { lease } = place
  const plugin = yield* pluginInUse(place)
  if (!plugin.lists(resumeMethod)) return yield* preserved(lease, "its worker cannot resume now")
  const answer = yield* Effect.fromResult(judgeResumption(lease, yield* plugin.call(resumeMethod, {})))
  if (answer._tag === "Gone" || lease.providerLeaseId === null)
    return yield* preserved(lease, "the provider has lost it")
  return { providerLeaseId: lease.providerLeaseId, metadata: answer.metadata }
})

const realize = Effect.fnUntraced(function* (asked: Realization) {
  const { workspace } = asked
  const added = { workspace: workspaceParam(workspace) }
  const reply = yield* callAboutLease(asked, "environmentRealizeWorkspace", added)
  return yield* realizedWorkspace(reply, workspace)
})

const execute = Effect.fnUntraced(function* (asked: Execution) {
  yield* TraceParents.use((parents) => parents.remember(asked.lease.id))
  const budget = executionBudgetMillis(asked.timeoutMillis, driverConfigOf(asked.environment))
  return yield* commandResult(
    yield* callAboutLease(asked, "environmentExecute", commandParams(asked), budget)
  )
})

/** The driver over the lease table and the workers of plugins. */
export const pluginDriver: DriverMaker<DriverNeeds> = Effect.map(
  driverNeeds,
  (context): EnvironmentDriver => ({
    driver: "plugin",
    acquireRunLease: (asked) => Effect.provideContext(acquire(asked), context),
    releaseRunLease: (asked) => Effect.provideContext(release(asked), context),
    resumeRunLease: (place) => Effect.provideContext(resume(place), context),
    destroyRunLease: (place) => Effect.provideContext(destroy(place), context),
    realizeWorkspace: (asked) => Effect.provideContext(realize(asked), context),
    execute: (asked) => Effect.provideContext(execute(asked), context)
  })
)
