/** Adapter of Digests: SHA-256 by node:crypto, in this thread, since what is digested is small. */
import { hash } from "node:crypto"
import * as Layer from "effect/Layer"
import { Digests } from "../domain/Digests.ts"

export const layer: Layer.Layer<Digests> = Layer.succeed(
  Digests,
  Digests.of({ sha256: (text) => hash("sha256", text, "hex") })
)
