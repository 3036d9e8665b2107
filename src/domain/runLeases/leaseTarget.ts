/**
 * The provider of a lease that is in use. It is the one that the lease names, or nobody; what is refused says whether this
 * process has workers at all. Source: RL 6.1 item 4.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { ProviderWorkers } from "../providers/ProviderWorkers.ts"
import { findTarget } from "./providerTargets.ts"
import { ProviderWorkerOffline, ProviderWorkersUnwired } from "./RunLeaseErrors.ts"

/** Refused with `ProviderWorkersUnwired`, or with `ProviderWorkerOffline` where the provider cannot be called now. */
export const targetInUse = Effect.fn("runLeases.targetInUse")(function* (lease: EnvironmentLease) {
  const target = yield* findTarget(lease, "own")
  if (Option.isSome(target)) return target.value
  const provider = lease.provider ?? ""
  return yield* (yield* ProviderWorkers) === null
    ? new ProviderWorkersUnwired({ provider })
    : new ProviderWorkerOffline({ provider })
})
