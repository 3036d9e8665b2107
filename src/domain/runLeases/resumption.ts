/**
 * Asking a provider for a resource again. The living worker is looked at right before each call; what the provider fails
 * with is tried again for a while, unless it says that another try is of no use; and whatever is not a clear answer leaves
 * the lease as it is. Source: RL-REUSE-12, RL-REUSE-13, RL 6.1 items 10 and 11, U1, U4.
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { resumePauseFirstMillis, resumePauseMillisMax } from "../Bounds.ts"
import { lifecycleBudgetMillis } from "../environments/budget.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import type { ProviderPluginId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import { faultOf } from "../providers/ProviderFault.ts"
import type { ProviderWorkerManager } from "../providers/ProviderWorkers.ts"
import type { ResolvedConfig } from "../secrets/configSecrets.ts"
import { SandboxLeasePreserved } from "./RunLeaseErrors.ts"
import { RuntimeSettings } from "./RuntimeSettings.ts"

/** Sent only where the living worker lists it at that moment. Source: RL-CAP-07. */
export const resumeMethod = "environmentResumeLease"

export type ResumeAnswer = Data.TaggedEnum<{
  Resumed: { readonly metadata: JsonObject }
  /** The provider has lost the resource. */
  Gone: {}
}>
export const ResumeAnswer = Data.taggedEnum<ResumeAnswer>()

export interface Resumption {
  readonly workers: ProviderWorkerManager
  readonly plugin: ProviderPluginId
  readonly driverKey: string
  readonly lease: EnvironmentLease
  /** The recorded config, by which the budget goes. */
  readonly recordedConfig: JsonObject
  readonly resolved: ResolvedConfig
}

const Reply = Schema.Struct({
  providerLeaseId: Schema.NullOr(Schema.String),
  metadata: Schema.optional(Schema.NullOr(Schema.Record(Schema.String, Schema.Unknown)))
})
const decodeReply = Schema.decodeUnknownOption(Reply)

export const preserved = (lease: EnvironmentLease, why: SandboxLeasePreserved["why"]) =>
  new SandboxLeasePreserved({ lease: lease.id, why })

/** Only the same resource, or its loss said in so many words, is an answer. Source: U4. */
export const judgeResumption = (
  lease: EnvironmentLease,
  reply: unknown
): Result.Result<ResumeAnswer, SandboxLeasePreserved> => {
  const { metadata, providerLeaseId } = Option.getOrElse(decodeReply(reply), () => ({
    providerLeaseId: "",
    metadata: null
  }))
  if (providerLeaseId === lease.providerLeaseId && providerLeaseId !== null)
    return Result.succeed(ResumeAnswer.Resumed({ metadata: metadata ?? {} }))
  return providerLeaseId === null && metadata?.["expired"] === true
    ? Result.succeed(ResumeAnswer.Gone())
    : Result.fail(preserved(lease, "the provider answered for another lease"))
}

/** The params of every call about a resource that exists. Source: RL section 3.4. */
const callOnce = ({ driverKey, lease, plugin, recordedConfig, resolved, workers }: Resumption) =>
  workers.call(
    plugin,
    resumeMethod,
    {
      driverKey,
      tenantId: lease.tenant,
      environmentId: lease.environment,
      taskId: lease.task,
      config: Redacted.value(resolved.config),
      providerLeaseId: lease.providerLeaseId,
      leaseMetadata: lease.metadata
    },
    lifecycleBudgetMillis(recordedConfig)
  )

const transientStatuses: ReadonlySet<number> = new Set([408, 425, 429])

/** Whether the provider's own API refused: then it refuses again. */
const isFinal = (error: Error): boolean =>
  Option.exists(faultOf(error), ({ status }) => status < 500 && !transientStatuses.has(status))

/** The pause after so many failures: twice as long each time up to the bound, a quarter shorter or longer by chance. */
const pauseMillis = (failures: number, chance: number): number =>
  Math.min(resumePauseFirstMillis * 2 ** (failures - 1), resumePauseMillisMax) * (0.75 + chance / 2)

const isListed = ({ plugin, workers }: Resumption): boolean =>
  workers.getWorker?.(plugin)?.supportedMethods.includes(resumeMethod) === true

/** One try; null where the provider failed in a way that another try may mend. */
const tryOnce = Effect.fnUntraced(function* (resumption: Resumption) {
  const { lease } = resumption
  if (!isListed(resumption)) return yield* preserved(lease, "its worker cannot resume now")
  const reply = yield* Effect.result(callOnce(resumption))
  if (Result.isSuccess(reply)) return yield* Effect.fromResult(judgeResumption(lease, reply.success))
  return isFinal(reply.failure) ? yield* preserved(lease, "the provider failed") : null
})

/**
 * Resumes the lease's resource. Fails with `SandboxLeasePreserved` where the worker cannot resume, the provider keeps
 * failing for `resumeAttemptMillis`, or it answers for another lease. Only the pauses can be interrupted.
 */
export const resumeResource = Effect.fn("runLeases.resumeResource")(function* (resumption: Resumption) {
  const { resumeAttemptMillis } = yield* RuntimeSettings
  const startedAt = yield* Clock.monotonicTimeNanos
  for (let failures = 1; ; failures += 1) {
    const answer = yield* tryOnce(resumption)
    if (answer !== null) return answer
    const pause = pauseMillis(failures, yield* Random.next)
    const elapsedMillis = Number(((yield* Clock.monotonicTimeNanos) - startedAt) / 1_000_000n)
    if (elapsedMillis + pause > resumeAttemptMillis)
      return yield* preserved(resumption.lease, "the provider failed")
    yield* Effect.interruptible(Effect.sleep(pause))
  }
})
