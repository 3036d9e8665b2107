/**
 * Resources that a provider lists under our installation's label and that are nobody's: neither a lease nor an intent has
 * their name. Each is seen twice, `providerOrphanGraceMillis` apart, and whose it is is read anew in between; only then does
 * it become a row that owes its cleanup, so it is journaled before it is destroyed, by the sweep. What bears another label,
 * or a name that is none of ours, is never touched. Source: FC-03, BX-03.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { providerOrphanGraceMillis, providerStraysKeptMax } from "../Bounds.ts"
import { type Environment, providerKeyOf } from "../environments/Environment.ts"
import { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../environments/EnvironmentStore.ts"
import { LeaseCensus } from "../environments/LeaseCensus.ts"
import { EnvironmentLeaseId, type TenantId } from "../Identity.ts"
import type { ProviderPlugin } from "../providers/ProviderPlugin.ts"
import { ProviderPlugins } from "../providers/ProviderPlugins.ts"
import type { SweepCount } from "../SweepReports.ts"
import { findTarget } from "./providerTargets.ts"
import { heldUnderLabel } from "./providerVerbs.ts"
import { RuntimeSettings } from "./RuntimeSettings.ts"
import { pinKeys } from "./SandboxRequest.ts"
import { unrecordedLease } from "./unrecordedLease.ts"

/** A provider as one environment reaches it; without an environment one that needs no config. */
interface Source {
  readonly tenant: TenantId
  readonly environment: Environment | null
  readonly provider: string
}

const isLeaseId = Schema.is(EnvironmentLeaseId)

/** Stands for the id of a resource while none has been listed. */
const noLease = EnvironmentLeaseId.make("00000000-0000-4000-8000-000000000000")

/** What the row of a resource there would say; of nobody's yet. */
const leaseAt = (
  { environment, provider, tenant }: Source,
  plugins: ReadonlyArray<ProviderPlugin>
): EnvironmentLease => {
  const plugin = plugins.find(({ pluginKey }) => pluginKey === environment?.config["pluginKey"])
  return unrecordedLease({
    id: noLease,
    tenant,
    environment,
    environmentId: environment?.id ?? null,
    run: null,
    provider,
    pin: environment?.driver === "plugin" ? { pluginId: plugin?.id, pluginKey: plugin?.pluginKey } : {},
    failureReason: strayReason
  })
}

const strayReason = "provider_stray"

interface Stray {
  readonly id: EnvironmentLeaseId
  readonly providerLeaseId: string
  readonly lease: EnvironmentLease
}

/** What the source lists of ours that nobody has; nothing where it cannot be asked. */
const straysAt = Effect.fnUntraced(function* (source: Source) {
  const { installation } = yield* RuntimeSettings
  const lease = leaseAt(source, yield* Effect.flatMap(ProviderPlugins, ({ all }) => all))
  const target = yield* findTarget(lease, "by_key")
  const held = Option.isNone(target) ? undefined : yield* heldUnderLabel(lease, target.value)
  if (held === undefined || Option.isNone(target)) return []
  const prefix = `${installation}-`
  const named = held.flatMap(({ intentName, providerLeaseId }) => {
    const isOurs = typeof intentName === "string" && intentName.startsWith(prefix)
    const id = isOurs ? intentName.slice(prefix.length) : ""
    return isLeaseId(id) ? [{ id, providerLeaseId }] : []
  })
  // Read after the list: whoever creates has an intent, or already a lease, by then.
  const known = yield* LeaseCensus.use((census) => census.known(named.map(({ id }) => id)))
  const pin =
    target.value._tag === "Plugin" && lease.metadata["driver"] === "sandbox"
      ? pinKeys(target.value.plugin)
      : {}
  const pinned = new EnvironmentLease({ ...lease, metadata: { ...lease.metadata, ...pin } })
  return named.filter(({ id }) => !known.has(id)).map((each): Stray => ({ ...each, lease: pinned }))
})

const sources = Effect.fnUntraced(function* (own: TenantId, providers: ReadonlyArray<string>) {
  const environments = yield* Effect.flatMap(EnvironmentStore, ({ list }) => list)
  const census = yield* LeaseCensus
  const reached = yield* Effect.forEach(
    environments.filter(({ driver }) => driver === "sandbox" || driver === "plugin"),
    (environment) =>
      Effect.map(census.tenantOf(environment.id), (tenant): Source => {
        const { config, driver } = environment
        const provider = driver === "plugin" ? String(config["driverKey"]) : providerKeyOf(config)
        return { tenant: Option.getOrElse(tenant, () => own), environment, provider }
      })
  )
  return [...providers.map((provider): Source => ({ tenant: own, environment: null, provider })), ...reached]
})

const record = ({ id, lease, providerLeaseId }: Stray) =>
  Effect.gen(function* () {
    const { environment, executionWorkspace, metadata, run, sentConfig, task, tenant } = lease
    yield* EnvironmentLeaseStore.use((store) =>
      store.insertPendingCleanupLease({
        id,
        tenant,
        environment,
        executionWorkspace,
        task,
        run,
        metadata,
        sentConfig,
        provider: lease.provider ?? "",
        providerLeaseId,
        failureReason: strayReason
      })
    )
    yield* Effect.logWarning(
      "a provider holds a resource of ours that is nobody's: it will be destroyed"
    ).pipe(Effect.annotateLogs({ leaseId: id, provider: lease.provider, environmentId: environment }))
  })

/**
 * A search with a memory of its own, in passes: each looks at the providers of every environment, and at those of
 * `providers`, which need none. `own` is whose a resource is that no lease of its environment tells a tenant of.
 */
export const makeStraySearch = (options: {
  readonly own: TenantId
  readonly providers: ReadonlyArray<string>
}) =>
  Effect.sync(() => {
    const seenAtNanos = new Map<EnvironmentLeaseId, bigint>()
    return Effect.gen(function* () {
      const all = yield* Effect.forEach(yield* sources(options.own, options.providers), straysAt)
      const strays = new Map(all.flat().map((stray) => [stray.id, stray]))
      const now = yield* Clock.monotonicTimeNanos
      for (const id of seenAtNanos.keys()) if (!strays.has(id)) seenAtNanos.delete(id)
      const due = [...strays.values()].filter(({ id }) => {
        const since = seenAtNanos.get(id)
        if (since === undefined && seenAtNanos.size < providerStraysKeptMax) seenAtNanos.set(id, now)
        return since !== undefined && Number((now - since) / 1_000_000n) >= providerOrphanGraceMillis
      })
      yield* Effect.forEach(due, record, { discard: true })
      for (const { id } of due) seenAtNanos.delete(id)
      const count: SweepCount = { attempted: due.length, done: due.length, failed: 0 }
      return count
    }).pipe(Effect.withSpan("runLeases.searchStrays"))
  })
