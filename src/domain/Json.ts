/**
 * Values of JSON as the database and the providers hand them over, and the one canonical text of such a value, over
 * which fingerprints are made. Source: RL-REUSE-20.
 */

/** An object of JSON: what a jsonb column or a provider's parameter holds. */
export type JsonObject = { readonly [key: string]: unknown }

export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/**
 * The canonical text: keys sorted by code unit at every level, arrays in their order, undefined written as null. Equal
 * values have equal texts whatever the order in which they were written.
 */
export const canonicalText = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`
  if (!isJsonObject(value)) return JSON.stringify(value ?? null)
  const entries = Object.keys(value)
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${canonicalText(value[key])}`)
  return `{${entries.join(",")}}`
}
