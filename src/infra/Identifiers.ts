/** Adapter of fresh identifiers: the system's secure source, by node:crypto. */
import { randomBytes, randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { endpointTokenBytes } from "../domain/Bounds.ts"
import { Identifiers } from "../domain/Identifiers.ts"

export const layer: Layer.Layer<Identifiers> = Layer.succeed(
  Identifiers,
  Identifiers.of({
    uuid: Effect.sync(() => randomUUID()),
    token: Effect.sync(() => randomBytes(endpointTokenBytes).toString("hex"))
  })
)
