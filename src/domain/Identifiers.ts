/**
 * Port for fresh identifiers and tokens. Domain programs draw every uuid and every secret from here, so that
 * a test can steer them. It makes no promise about order.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

export class Identifiers extends Context.Service<
  Identifiers,
  {
    /** A fresh random uuid in lower case. */
    readonly uuid: Effect.Effect<string>
    /** A fresh secret of 64 hex digits from the system's secure source. Source: RG figures. */
    readonly token: Effect.Effect<string>
  }
>()("holdfast/domain/Identifiers") {}
