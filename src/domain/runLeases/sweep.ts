/**
 * The cleanup sweep: rows for what only this process and the spool remember, active leases whose run is over, and every
 * cleanup that is due. It ends what is owed by the same steps as everybody else and never gives a row up; a row whose owner
 * is away goes behind the others without a try. Source: RL section 4.12, RL 6.4 items 3 and 4, FC-05, FC-09.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import {
  abandonedAtOnceMax,
  cleanupSweepBatchesAtOnceMax,
  cleanupSweepPageMax,
  cleanupSweepPagesMax,
  cleanupSweepPagesTogetherMax
} from "../Bounds.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { type DueCleanups, EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { decideVerb } from "../environments/verb.ts"
import type { ProviderPluginId } from "../Identity.ts"
import { ProviderPlugins } from "../providers/ProviderPlugins.ts"
import type { SweepCount } from "../SweepReports.ts"
import { isRunLive } from "../work/Work.ts"
import { WorkStore } from "../work/WorkStore.ts"
import { flushDeferredOrphans } from "./orphans.ts"
import { RunnerHarnessBackupUnavailable } from "./RunLeaseErrors.ts"
import { releaseLease } from "./runRelease.ts"
import { tearDown, type TeardownOutcome } from "./teardown.ts"

/** What became of one row. */
type Fate = "destroyed" | "stopped" | "failed" | "capped" | "postponed" | "left"

const fateOf = (outcome: TeardownOutcome): Fate => {
  switch (outcome._tag) {
    case "Ended":
      return outcome.lease.status === "expired" ? "destroyed" : "stopped"
    case "Owed":
      return outcome.lease.needsOperator ? "capped" : "failed"
    case "NotReady":
      return "postponed"
    case "NotTaken":
    case "Moved":
      return "left"
  }
}

/** An error may carry a provider's text, so only what failed is told. Source: RL 6.4 item 5. */
const failedAt = (what: string, { environment, id, provider }: EnvironmentLease) =>
  Effect.logWarning(what).pipe(
    Effect.annotateLogs({
      errorKind: "lease_sweep_failed",
      leaseId: id,
      environmentId: environment,
      provider
    }),
    Effect.as<Fate>("failed")
  )

/** A row that holds nothing to be sent is attempted all the same: only its count makes a person look at it. */
const sweepRow = Effect.fnUntraced(
  function* (lease: EnvironmentLease) {
    const outcome = yield* tearDown({
      lease,
      from: ["pending_cleanup"],
      refuseLiveRun: false,
      failureReason: null,
      actor: "sweep",
      onlyIfReady: decideVerb(lease)._tag !== "Hold"
    })
    const fate = fateOf(outcome)
    if (fate === "postponed") yield* EnvironmentLeaseStore.use((store) => store.postponeCleanup(lease.id))
    return fate
  },
  (swept, lease) =>
    Effect.catch(swept, () => failedAt("the cleanup of a lease could not be written down", lease))
)

const isRunOver = ({ run, tenant }: EnvironmentLease) =>
  run === null
    ? Effect.succeed(true)
    : WorkStore.use((work) => work.runById(tenant, run)).pipe(
        Effect.map((found) => !Option.exists(found, ({ status }) => isRunLive(status)))
      )

/**
 * An active lease that nobody will release is released in its run's stead, and its resource goes; a native runner without a
 * proved backup is stopped instead. One whose resource a living row names, or whose run still lives, is left.
 */
const endAbandoned = Effect.fnUntraced(
  function* (lease: EnvironmentLease) {
    const isLeft =
      (yield* EnvironmentLeaseStore.use((store) => store.hasOtherOwner(lease))) || !(yield* isRunOver(lease))
    if (isLeft) return "left" satisfies Fate as Fate
    const released = yield* releaseLease(lease, { status: "expired" }).pipe(
      Effect.catchIf(
        (error) => error instanceof RunnerHarnessBackupUnavailable,
        () => releaseLease(lease, { disposition: "stop_and_retain", cancelActiveWork: true })
      )
    )
    if (released === null) return "left" satisfies Fate as Fate
    const { status } = released.lease
    return (status === "pending_cleanup" ? "failed" : status === "expired" ? "destroyed" : "stopped") as Fate
  },
  (ended, lease) => Effect.catch(ended, () => failedAt("an abandoned lease could not be released", lease))
)

/** The rows of a page are mostly of few plugins: each is looked up once. Whether its worker runs is asked for each row. */
const readingPluginsOnce = <A, E, R>(page: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const plugins = yield* ProviderPlugins
    const looks = new Map<ProviderPluginId, ReturnType<typeof plugins.byId>>()
    const all = yield* Effect.cached(plugins.all)
    const byId = Effect.fnUntraced(function* (plugin: ProviderPluginId) {
      const look = looks.get(plugin) ?? (yield* Effect.cached(plugins.byId(plugin)))
      looks.set(plugin, look)
      return yield* look
    })
    return yield* Effect.provideService(page, ProviderPlugins, { ...plugins, all, byId })
  })

/**
 * The pages of the queue one behind another, several in a batch, whoever asks for the next one. An empty batch is the end of
 * the pass. A read that fails ends it too, when what was read before is through.
 */
const batchesDue = Effect.fnUntraced(function* (backoffMillis: number) {
  const store = yield* EnvironmentLeaseStore
  const oneAtATime = yield* Semaphore.make(1)
  let pagesLeft: number = cleanupSweepPagesMax
  let last: DueCleanups | undefined
  const batch = Effect.gen(function* () {
    const pagesMax = Math.min(pagesLeft, cleanupSweepPagesTogetherMax)
    if (pagesMax === 0) return []
    const after = last === undefined ? {} : { after: last }
    last = yield* store.dueCleanups({ backoffMillis, pagesMax, ...after })
    pagesLeft = last.leases.length < pagesMax * cleanupSweepPageMax ? 0 : pagesLeft - pagesMax
    return last.leases
  }).pipe(Effect.tapError(() => Effect.sync(() => (pagesLeft = 0))))
  return oneAtATime.withPermit(batch)
})

/** Every row that is due, once. The next batch is read while one is swept. */
const sweepDue = Effect.fnUntraced(function* (backoffMillis: number) {
  const fates: Array<Fate> = []
  const nextBatch = yield* batchesDue(backoffMillis)
  const sweeping = Effect.gen(function* () {
    for (let rows = yield* nextBatch; rows.length > 0; rows = yield* nextBatch)
      fates.push(...(yield* Effect.forEach(rows, sweepRow, { concurrency: "unbounded" })))
  })
  const ends = yield* readingPluginsOnce(
    Effect.all(
      Array.from({ length: cleanupSweepBatchesAtOnceMax }, () => Effect.exit(sweeping)),
      { concurrency: cleanupSweepBatchesAtOnceMax }
    )
  )
  for (const end of ends) yield* end
  return fates
})

const needingOperator = Metric.gauge("holdfast_lease_cleanups_need_operator", {
  description: "Cleanups of leases that have failed so often that somebody has to look at them"
})

/** Told after every sweep; where the database does not say, the sweep has failed by itself. Source: FC-09. */
const noteOperators = EnvironmentLeaseStore.use((store) => store.needingOperator).pipe(
  Effect.flatMap((rows) => Metric.update(needingOperator, rows))
)

/** The spool cannot be read, which is told by its own check; what is in the database is swept all the same. */
const flush = Effect.isSuccess(flushDeferredOrphans())

const countOf = (fates: ReadonlyArray<Fate>, ...counted: ReadonlyArray<Fate>): number =>
  fates.filter((fate) => counted.includes(fate)).length

const sweep = Effect.fnUntraced(function* (backoffMillis: number) {
  const isFlushed = yield* flush
  const abandoned = yield* EnvironmentLeaseStore.use((store) => store.abandoned)
  const ended = yield* Effect.forEach(abandoned, endAbandoned, { concurrency: abandonedAtOnceMax })
  const fates = [...ended, ...(yield* sweepDue(backoffMillis))]
  yield* noteOperators
  return { isFlushed, fates }
})

/**
 * Sweeps everything that is due. `swept`: rows that were attempted; `destroyed`: of those, whose resource is gone;
 * `capped`: of those, which have failed so often that they need an operator. Rows of others are counted nowhere.
 */
export const sweepPendingCleanupLeases = Effect.fn("runLeases.sweepPendingCleanupLeases")(function* ({
  backoffMillis
}: {
  readonly backoffMillis: number
}) {
  const { fates } = yield* sweep(backoffMillis)
  return {
    swept: countOf(fates, "destroyed", "stopped", "failed", "capped"),
    destroyed: countOf(fates, "destroyed"),
    capped: countOf(fates, "capped")
  }
})

/** One pass for the daemon's loop, as its report counts it: a spool that cannot be read is a failure. Source: FC-05. */
export const sweepCleanups = Effect.fn("runLeases.sweepCleanups")(function* (backoffMillis: number) {
  const { fates, isFlushed } = yield* sweep(backoffMillis)
  const done = countOf(fates, "destroyed", "stopped")
  const failed = countOf(fates, "failed", "capped") + (isFlushed ? 0 : 1)
  const count: SweepCount = { attempted: done + failed, done, failed }
  return count
})
