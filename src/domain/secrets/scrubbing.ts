/**
 * Takes secrets out of what a provider returns before it becomes a row: at the places of secrets the reference comes back,
 * and any copy of a value that was sent is replaced wherever it stands, in names too, as it is or in the spelling of JSON,
 * a URL, hex or base64. Pure. Source: RL-SECRET-02, FC-21.
 */
import * as Base64 from "effect/encoding/Base64"
import * as Hex from "effect/encoding/Hex"
import * as Redacted from "effect/Redacted"
import { configDepthMax, secretBytesMin } from "../Bounds.ts"
import { isJsonObject, type JsonObject } from "../Json.ts"
import { isSecretRefObject, marksSecret, schemasAt, schemasBelow } from "./secretPlaces.ts"

const replacement = "[redacted]"

/**
 * What of a value's base64 is the same whatever stands before and behind it: base64 cuts in threes, so there are three
 * spellings, each without the digits that a neighbour has a part in.
 */
const base64Of = (value: string): ReadonlyArray<string> =>
  [0, 1, 2].map((before) => {
    const bytes = new TextEncoder().encode("\0".repeat(before) + value)
    const digits = Base64.encode(bytes.subarray(0, bytes.length - (bytes.length % 3)))
    return digits.slice(before === 0 ? 0 : before + 1)
  })

/** Every spelling under which a value is looked for, the longest first. */
const spellingsOf = (values: ReadonlyArray<Redacted.Redacted>): ReadonlyArray<string> => {
  const spelt = values.flatMap((each) => {
    const value = Redacted.value(each)
    const base64 = base64Of(value)
    const others = [
      value.trim(),
      JSON.stringify(value).slice(1, -1),
      encodeURIComponent(value.toWellFormed()),
      Hex.encode(value),
      ...base64,
      ...base64.map((digits) => digits.replaceAll("+", "-").replaceAll("/", "_"))
    ]
    // A short one could be a part of anything.
    return [value, ...others.filter((text) => text.length >= secretBytesMin)]
  })
  return [...new Set(spelt)].filter((text) => text !== "").toSorted((one, other) => other.length - one.length)
}

export interface ScrubbedBy {
  /** The config with references, as it is recorded. */
  readonly config: JsonObject
  readonly schema?: JsonObject
  /** What was sent in the references' places. */
  readonly values: ReadonlyArray<Redacted.Redacted>
}

const partOf = (whole: unknown, key: string): unknown =>
  (isJsonObject(whole) || Array.isArray(whole)) && Object.hasOwn(whole, key)
    ? Reflect.get(whole, key)
    : undefined

/** Whatever lies deeper than `configDepthMax` is left out. */
export const scrubMetadata = (
  metadata: JsonObject,
  { config, schema = {}, values }: ScrubbedBy
): JsonObject => {
  const spellings = spellingsOf(values)
  const clean = (text: string): string =>
    spellings.reduce((rest, spelling) => rest.replaceAll(spelling, replacement), text)
  const scrub = (
    value: unknown,
    configured: unknown,
    given: ReadonlyArray<JsonObject>,
    depth: number
  ): unknown => {
    const schemas = schemasAt(schema, given)
    if (isSecretRefObject(configured) || marksSecret(schemas)) return configured
    if (typeof value === "string") return clean(value)
    const below = (key: string, part: unknown): unknown =>
      scrub(part, partOf(configured, key), schemasBelow(schemas, key, Array.isArray(value)), depth + 1)
    if (Array.isArray(value)) {
      return depth < configDepthMax ? value.map((part, index) => below(String(index), part)) : undefined
    }
    if (!isJsonObject(value)) return value
    if (depth >= configDepthMax) return undefined
    return Object.fromEntries(
      Object.entries(value)
        .map(([key, part]) => [clean(key), below(key, part)] as const)
        .filter(([, part]) => part !== undefined)
    )
  }
  const scrubbed = scrub(metadata, config, [schema], 0)
  return isJsonObject(scrubbed) ? scrubbed : {}
}
