/**
 * Acquisitions under a request key that one runtime carries out now. Whoever comes with the same key and the same request
 * joins; the work goes on when everybody who waits for it has gone, so that a dropped answer costs no second resource.
 * There are never more of them than intents that the environments may have. Source: FC-04.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import type { RequestKey, TenantId } from "../Identity.ts"
import { AcquisitionKeyConflict } from "./RunLeaseErrors.ts"

export interface SharedRequest {
  readonly tenant: TenantId
  readonly requestKey: RequestKey
  /** Digest of everything that is asked for. */
  readonly fingerprint: string
}

export class SharedAcquisitions extends Context.Service<
  SharedAcquisitions,
  {
    /** Begins the acquisition or joins it; refused with `AcquisitionKeyConflict` when another request has the key. */
    readonly share: (
      request: SharedRequest,
      acquire: Effect.Effect<EnvironmentLease, Error>
    ) => Effect.Effect<EnvironmentLease, Error>
  }
>()("holdfast/domain/runLeases/SharedAcquisitions") {
  /** Ends, with the layer's scope, what is still under way. */
  static readonly layer: Layer.Layer<SharedAcquisitions> = Layer.effect(
    SharedAcquisitions,
    Effect.gen(function* () {
      const scope = yield* Scope.Scope
      const running = new Map<
        string,
        { readonly fingerprint: string; readonly fiber: Fiber.Fiber<EnvironmentLease, Error> }
      >()
      return {
        share: ({ fingerprint, requestKey, tenant }, acquire) =>
          Effect.uninterruptibleMask((restore) =>
            Effect.gen(function* () {
              const key = `${tenant}/${requestKey}`
              const present = running.get(key)
              if (present !== undefined && present.fingerprint !== fingerprint)
                return yield* new AcquisitionKeyConflict({ requestKey })
              if (present !== undefined) return yield* restore(Fiber.join(present.fiber))
              const ended = Effect.sync(() => void running.delete(key))
              const work = Effect.ensuring(Effect.interruptible(acquire), ended)
              const fiber = yield* Effect.forkIn(work, scope)
              running.set(key, { fingerprint, fiber })
              return yield* restore(Fiber.join(fiber))
            })
          )
      }
    })
  )
}
