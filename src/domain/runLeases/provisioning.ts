/**
 * One new resource of a provider, from the durable intent to the row: note the intent, ask the provider, read its answer,
 * insert the row. What was created and cannot be recorded is torn down or remembered. It is not interrupted half-way.
 * How a provider is asked, and what its row says, is told by those who provision. Source: BX-01, RL-ACQ-10, 5.2 #1 and #3.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { EnvironmentLease, LeasePolicy } from "../environments/EnvironmentLease.ts"
import { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import type { ProviderIntent } from "../environments/ProviderIntent.ts"
import { Identifiers } from "../Identifiers.ts"
import { EnvironmentLeaseId, type ProviderPluginId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import { CommitUnknown } from "../persistence/PluginDb.ts"
import { Processes } from "../Processes.ts"
import { ProviderCallFailed, ProviderRpcError } from "../providers/ProviderWorkers.ts"
import { observeStep } from "../registry/observeStep.ts"
import { type Acquisition, leasePlaceOf } from "./EnvironmentDriver.ts"
import { LostCreations } from "./LostCreations.ts"
import type { OrphanRecord } from "./OrphanSpool.ts"
import { disposeOrphan } from "./orphans.ts"
import { SandboxOrphanCleanupWriteError } from "./RunLeaseErrors.ts"
import { quietSpan } from "./quietSpan.ts"
import { RuntimeSettings } from "./RuntimeSettings.ts"

const program = "runLeases.provision"

/** What a provider is told of the intent, if it creates under names. Source: BX-01. */
export interface IntentNote {
  readonly name: string
  readonly installation: string
  readonly generation: number
}

export interface Provision<R = never> {
  readonly asked: Acquisition
  readonly provider: string
  readonly plugin: ProviderPluginId | null
  /** The provider creates under the intent's name, so what an answer that got lost had created is found by it. */
  readonly keepsIntents: boolean
  /** The config that is sent, secrets as references. */
  readonly sentConfig: JsonObject
  /** What was sent in the references' places: no log may tell it. */
  readonly values: ReadonlyArray<Redacted.Redacted>
  readonly policy: LeasePolicy
  readonly create: (intent: IntentNote) => Effect.Effect<unknown, Error>
  /** Metadata of the row, from what the provider returned: the host's keys stand above the provider's. */
  readonly metadataOf: (returned: JsonObject) => JsonObject
  /** What only a row that is held says beside it. */
  readonly stamps: JsonObject
  /** Told of a creation that failed, before the caller is; what it answers is what the caller gets. */
  readonly failed?: (error: Error, orphan: OrphanSeed) => Effect.Effect<Error, never, R>
}

/** What a row that owes a cleanup says, whatever resource it is about. */
export type OrphanSeed = Omit<OrphanRecord, "providerLeaseId" | "failureReason">

const Answer = Schema.Struct({
  providerLeaseId: Schema.NonEmptyString,
  expiresAt: Schema.optional(Schema.NullOr(Schema.String)),
  metadata: Schema.optional(Schema.NullOr(Schema.Record(Schema.String, Schema.Unknown)))
})
const decodeAnswer = Schema.decodeUnknownOption(Answer)

const hasOffset = /(?:Z|[+-]\d\d:?\d\d)$/i

/** A moment that the provider attested; anything but a full ISO 8601 time attests none. Source: RL-EXPIRY-01. */
const attestedMillis = (text: string | null | undefined): number | null =>
  text === null || text === undefined || !hasOffset.test(text)
    ? null
    : Option.match(DateTime.make(text), { onNone: () => null, onSome: DateTime.toEpochMillis })

const seedOf = <R>(provision: Provision<R>, id: EnvironmentLeaseId, returned: JsonObject): OrphanSeed => {
  const { asked, metadataOf, provider, sentConfig } = provision
  return {
    ...leasePlaceOf(asked),
    id,
    provider,
    metadata: metadataOf(returned),
    sentConfig
  }
}

/**
 * The creation failed. Its intent stays only where nobody knows what became of it and the provider could find it again;
 * with any other provider it could never be resolved.
 */
const failCreation = Effect.fnUntraced(function* <R>(
  provision: Provision<R>,
  id: EnvironmentLeaseId,
  error: Error
) {
  const { failed, keepsIntents } = provision
  const told = failed === undefined ? error : yield* failed(error, seedOf(provision, id, {}))
  const isLost = keepsIntents && !(error instanceof ProviderRpcError)
  yield* isLost ? leaveIntent(id) : dropIntent(id)
  return yield* Effect.fail(told)
})

/** What was lost is looked for by itself, and does not stand in the way of who asks again. */
const leaveIntent = (id: EnvironmentLeaseId) =>
  EnvironmentLeaseStore.use((store) => store.freeRequestKey(id)).pipe(
    Effect.catch(() => Effect.logWarning("a lost creation keeps its request key until it is resolved")),
    Effect.andThen(LostCreations.use((lost) => lost.note(id)))
  )

const dropIntent = (id: EnvironmentLeaseId) =>
  EnvironmentLeaseStore.use((store) => store.dropIntent(id)).pipe(
    Effect.catch(() => Effect.logWarning("an intent that came to nothing is left for the next sweep"))
  )

type Created = typeof Answer.Type

/** The row is there after all when only the answer of its commit was lost. Source: BX-04. */
const committedAfterAll = (id: EnvironmentLeaseId, rejection: Error) =>
  rejection instanceof CommitUnknown
    ? EnvironmentLeaseStore.use((store) => store.getLeaseById(id)).pipe(
        Effect.map(Option.filter(({ status }) => status === "active")),
        Effect.orElseSucceed(Option.none<EnvironmentLease>)
      )
    : Effect.succeedNone

/** The resource exists and its row was refused: it is nobody's, and goes. Source: RL-ORPHAN-01 to -08. */
const rejectRow = Effect.fnUntraced(function* (
  orphan: OrphanRecord,
  rejection: Error,
  values: Provision["values"]
) {
  const committed = yield* committedAfterAll(orphan.id, rejection)
  if (Option.isSome(committed)) return committed.value
  const fate = yield* disposeOrphan(orphan, values)
  if (fate !== "deferred") return yield* Effect.fail(rejection)
  const { provider, providerLeaseId } = orphan
  return yield* new SandboxOrphanCleanupWriteError({ provider, providerLeaseId, cause: rejection })
})

const record = Effect.fnUntraced(function* <R>(
  provision: Provision<R>,
  id: EnvironmentLeaseId,
  answer: Created
) {
  const { asked, policy, stamps } = provision
  const seed = seedOf(provision, id, answer.metadata ?? {})
  const store = yield* EnvironmentLeaseStore
  const row = {
    ...seed,
    environment: asked.environment.id,
    policy,
    providerLeaseId: answer.providerLeaseId,
    expiresAtMillis: attestedMillis(answer.expiresAt),
    metadata: { ...seed.metadata, ...stamps },
    assertTenantBinding: asked.assertTenantBinding ?? false
  }
  const orphan: OrphanRecord = {
    ...seed,
    providerLeaseId: answer.providerLeaseId,
    failureReason: "acquire_rejected_teardown_failed"
  }
  return yield* observeStep(program, "row", store.acquireLease(row)).pipe(
    Effect.catch((rejection) => rejectRow(orphan, rejection, provision.values))
  )
})

const intend = Effect.fnUntraced(function* <R>(provision: Provision<R>) {
  const { asked, plugin, provider } = provision
  const { installation } = yield* RuntimeSettings
  const id = EnvironmentLeaseId.make(yield* Identifiers.use(({ uuid }) => uuid))
  const intent: ProviderIntent = {
    id,
    tenant: asked.tenant,
    environment: asked.environment.id,
    run: asked.run,
    provider,
    plugin,
    name: `${installation}-${id}`,
    installation,
    generation: 1,
    process: (yield* Processes).current.toString(),
    ...(asked.request === undefined ? {} : { request: asked.request })
  }
  yield* observeStep(
    program,
    "intent",
    EnvironmentLeaseStore.use((store) => store.intend(intent))
  )
  return intent
})

/**
 * Creates the resource and its row. Fails with the provider's own error object, the store's refusal of the row, or
 * `SandboxOrphanCleanupWriteError` where what was created could be neither recorded nor torn down.
 */
export const provisionLease = Effect.fnUntraced(function* <R>(provision: Provision<R>) {
  const { generation, id, installation, name } = yield* intend(provision)
  const { asked, provider } = provision
  const span = { tenant: asked.tenant, environment: asked.environment.id, run: asked.run }
  const asking = observeStep(program, "create", provision.create({ name, installation, generation }))
  const create = asking.pipe(
    quietSpan("runLeases.create", { ...span, lease: id, provider }),
    Effect.flatMap((reply) =>
      Option.match(decodeAnswer(reply), {
        onNone: () =>
          Effect.fail(new ProviderCallFailed({ method: "environmentAcquireLease", why: "malformed" })),
        onSome: Effect.succeed
      })
    )
  )
  return yield* create.pipe(
    Effect.matchEffect({
      onFailure: (error) => failCreation(provision, id, error),
      onSuccess: (answer) => record(provision, id, answer)
    })
  )
}, Effect.uninterruptible)
