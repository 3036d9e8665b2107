/**
 * Coming back to a sandbox: the newest lease of the run's own scope that was made from the same config is resumed, one that
 * was made from another config is destroyed, and everything else is left alone. Source: RL section 4.2, RL 6.1 item 9.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Digests } from "../Digests.ts"
import { type EnvironmentLease, pinOf } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { fingerprintFits } from "../environments/fingerprint.ts"
import { recordedConfigOf } from "../environments/recordedConfig.ts"
import {
  type CandidateDecision,
  decideCandidate,
  type ReuseOwner,
  type ReuseStamp
} from "../environments/reuseMatch.ts"
import { Identifiers } from "../Identifiers.ts"
import { EnvironmentLeaseId, type RunId, type TenantId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import { resolveConfig } from "../secrets/configSecrets.ts"
import { isRunLive } from "../work/Work.ts"
import { WorkStore } from "../work/WorkStore.ts"
import { requireBackup } from "./backupGate.ts"
import { type Acquisition, leasePlaceOf } from "./EnvironmentDriver.ts"
import { resumeResource } from "./resumption.ts"
import { providerFieldsOf, type SandboxRequest, sandboxKeys } from "./SandboxRequest.ts"
import { tearDown } from "./teardown.ts"

/** What became of the wish to come back. */
export type Return = Data.TaggedEnum<{
  Held: { readonly lease: EnvironmentLease }
  /** A fresh resource is due; `lost` is the lease whose resource the provider no longer has. */
  Fresh: { readonly lost: EnvironmentLease | null }
}>
export const Return = Data.taggedEnum<Return>()

const isHolderLive = (tenant: TenantId, run: RunId | null) =>
  run === null
    ? Effect.succeed(false)
    : WorkStore.use((work) => work.runById(tenant, run)).pipe(
        Effect.map(Option.exists(({ status }) => isRunLive(status)))
      )

interface Judged {
  readonly lease: EnvironmentLease
  readonly decision: CandidateDecision
}

/** Candidates with what is to be done about each, the newest first. One of a sibling plugin is out of scope. */
const judgeCandidates = Effect.fnUntraced(function* (request: SandboxRequest, owner: ReuseOwner) {
  const { asked, plugin, provider, resolved } = request
  const { sha256 } = yield* Digests
  const subject = { provider, adapterType: owner.adapterType, config: asked.environment.config }
  const fits = (stamp: ReuseStamp) => fingerprintFits(sha256, stamp, subject, resolved.uses)
  const scope = {
    tenant: asked.tenant,
    environment: asked.environment.id,
    executionWorkspace: asked.executionWorkspace?.id ?? null,
    task: asked.task
  }
  const leases = yield* EnvironmentLeaseStore.use((store) => store.reusable(scope))
  return yield* Effect.forEach(
    leases.filter((lease) => pinOf(lease) === plugin.id),
    Effect.fnUntraced(function* (lease) {
      const isOthers = lease.status === "active" && lease.run !== asked.run
      const held = isOthers && (yield* isHolderLive(asked.tenant, lease.run))
      const candidate = { lease, owner, provider, run: asked.run, isHolderLive: held, fits }
      return { lease, decision: decideCandidate(candidate) } satisfies Judged
    })
  )
})

/** What a resumed lease does not take over: what was owed, done or proved about its resource before. */
const spentKeys: ReadonlySet<string> = new Set([
  "sandboxStopAndRetain",
  "sandboxStopAndRetainReceipt",
  "remoteExecutionTermination",
  "acquisitionRequest",
  "pendingCleanupAttemptId",
  "pendingCleanupInFlight",
  "pendingCleanupLeaseExpiresAtMs"
])

const resumedMetadata = (
  { asked, provider }: SandboxRequest,
  lease: EnvironmentLease,
  { recorded, returned }: { readonly recorded: JsonObject; readonly returned: JsonObject }
): JsonObject => ({
  ...Object.fromEntries(Object.entries(lease.metadata).filter(([key]) => !spentKeys.has(key))),
  ...returned,
  ...recorded,
  ...sandboxKeys(asked, provider),
  sandboxLeaseAcquisition: { outcome: "resumed" },
  ...asked.note
})

/** The same run comes back to the row that it holds. None where the row is no longer its. Source: RL-REUSE-11. */
const refreshOwn = (asked: Acquisition, lease: EnvironmentLease, metadata: JsonObject) =>
  EnvironmentLeaseStore.use((store) => store.refreshLease(lease.id, asked.run, metadata))

/**
 * A later run takes the resource over: its own row takes the older one's place. None where somebody else was faster.
 * Source: RL-REUSE-09, 5.2 #20.
 */
const takeOver = Effect.fnUntraced(function* (
  asked: Acquisition,
  lease: EnvironmentLease,
  metadata: JsonObject,
  sentConfig: JsonObject
) {
  const store = yield* EnvironmentLeaseStore
  const id = EnvironmentLeaseId.make(yield* Identifiers.use(({ uuid }) => uuid))
  const { expiresAtMillis, policy, provider, providerLeaseId } = lease
  const row = {
    ...leasePlaceOf(asked),
    id,
    policy,
    provider,
    providerLeaseId,
    expiresAtMillis,
    metadata,
    sentConfig,
    assertTenantBinding: asked.assertTenantBinding ?? false,
    replaces: lease.id
  }
  return yield* store.acquireLease(row).pipe(
    Effect.map(Option.some),
    Effect.catchTag("ReusableLeaseConflict", () => Effect.succeedNone),
    Effect.catchTag("CommitUnknown", (unknown) =>
      Effect.flatMap(
        store.getLeaseById(id),
        Option.match({ onNone: () => Effect.fail(unknown), onSome: (found) => Effect.succeedSome(found) })
      )
    )
  )
})

const resumeLease = Effect.fn("runLeases.resumeLease")(function* (
  request: SandboxRequest,
  lease: EnvironmentLease
) {
  const { asked, entry, plugin, provider, workers } = request
  const schema = entry.configSchema
  const recordedConfig = recordedConfigOf(lease, schema)
  const { environment, tenant } = asked
  const resolved = yield* resolveConfig({
    tenant,
    environment: environment.id,
    config: recordedConfig,
    schema
  })
  const answer = yield* resumeResource({
    workers,
    plugin: plugin.id,
    driverKey: provider,
    lease,
    recordedConfig,
    resolved
  })
  if (answer._tag === "Gone") {
    yield* requireBackup(lease)
    return Return.Fresh({ lost: lease })
  }
  const metadata = resumedMetadata(request, lease, {
    recorded: recordedConfig,
    returned: providerFieldsOf(answer.metadata, recordedConfig, resolved, schema)
  })
  const held =
    lease.status === "active"
      ? yield* refreshOwn(asked, lease, metadata)
      : yield* takeOver(asked, lease, metadata, recordedConfig)
  return Option.match(held, {
    onNone: () => Return.Fresh({ lost: null }),
    onSome: (row) => Return.Held({ lease: row })
  })
}, Effect.uninterruptible)

/**
 * Destroys a lease that was made from another config. Its row owes the cleanup where that does not work, and the
 * acquisition goes on all the same. Source: RL-REUSE-14, RL-REUSE-15, U9.
 */
const destroyDrifted = Effect.fnUntraced(function* (lease: EnvironmentLease) {
  yield* requireBackup(lease)
  yield* tearDown({
    lease,
    from: ["released", "retained"],
    refuseLiveRun: false,
    failureReason: "lease_fingerprint_mismatch",
    actor: "acquisition"
  })
})

/** Why a sandbox of the run's own is not come back to, for whoever wonders. Source: FC-20. */
const sayWhyFresh = ({ decision, lease }: Judged) =>
  decision === "Drifted" || (decision === "Unusable" && lease.status === "retained")
    ? Effect.logInfo("a sandbox is not come back to: its config or the version of a secret has changed").pipe(
        Effect.annotateLogs({ leaseId: lease.id, environmentId: lease.environment, decision })
      )
    : Effect.void

/**
 * Comes back to a lease of the owner's scope, or says that a fresh one is due. Fails with `SandboxLeasePreserved` where
 * the resource exists and cannot be had now, and with `RunnerHarnessBackupUnavailable` where a native runner's state would
 * be lost.
 */
export const comeBack = Effect.fn("runLeases.comeBack")(function* (
  request: SandboxRequest,
  owner: ReuseOwner
) {
  const judged = yield* judgeCandidates(request, owner)
  const fitting = judged.find(({ decision }) => decision === "Resume")
  if (fitting !== undefined) return yield* resumeLease(request, fitting.lease)
  yield* Effect.forEach(judged, sayWhyFresh)
  const drifted = judged.filter(({ decision }) => decision === "Drifted")
  yield* Effect.forEach(drifted, ({ lease }) => destroyDrifted(lease))
  return Return.Fresh({ lost: null })
})

/**
 * Ends the row of a resource that the provider has lost, once another one is there in its place. A row that somebody else
 * has taken meanwhile is left to him. Source: U8.
 */
export const closeLost = Effect.fnUntraced(
  function* (lost: EnvironmentLease) {
    const store = yield* EnvironmentLeaseStore
    const attempt = yield* Identifiers.use(({ uuid }) => uuid)
    const failureReason = "provider_lease_not_found"
    const claimed = yield* store.claimCleanup({
      lease: lost.id,
      attempt,
      from: ["active", "released", "retained"],
      refuseLiveRun: false,
      failureReason,
      actor: "acquisition"
    })
    if (Option.isNone(claimed)) return
    const { providerLeaseId, run } = claimed.value
    yield* store.settleCleanup(
      { lease: lost.id, attempt, run, providerLeaseId },
      { _tag: "Ended", status: "expired", failureReason, metadata: {}, removeKeys: [] }
    )
  },
  (effect, lost) =>
    Effect.catch(effect, (failure) =>
      Effect.logWarning(`the row of lost lease ${lost.id} is closed by a later sweep: ${failure.message}`)
    )
)
