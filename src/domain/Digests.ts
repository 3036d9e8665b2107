/** Port of the one digest that the domain names things by. It is a pure function; only its engine lies outside. */
import * as Context from "effect/Context"

export class Digests extends Context.Service<
  Digests,
  {
    /** SHA-256 of the text's UTF-8 bytes, as 64 lower-case hex digits. */
    readonly sha256: (text: string) => string
  }
>()("holdfast/domain/Digests") {}
