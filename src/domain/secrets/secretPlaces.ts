/**
 * Where a config names secrets: every object of the type `secret_ref`, wherever it stands, and every string that the JSON
 * schema of the config marks by `format: "secret-ref"`. The config is walked and the schema beside it, so a schema that
 * refers to itself ends with the config. Pure. Source: RL section 2.1, RL-SECRET-01, RL-SECRET-03.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { configDepthMax, configSecretsMax } from "../Bounds.ts"
import { SecretId } from "../Identity.ts"
import { isJsonObject, type JsonObject } from "../Json.ts"
import { SecretRef } from "./Secret.ts"

export interface SecretPlace {
  readonly path: ReadonlyArray<string>
  readonly ref: SecretRef
}

export interface SecretPlaces {
  readonly places: ReadonlyArray<SecretPlace>
  /** Places that are a secret's and hold something else: a value in the clear, or a reference that cannot be read. */
  readonly invalid: ReadonlyArray<ReadonlyArray<string>>
}

/** The written form of a path, as bindings name it. */
export const pathText = (path: ReadonlyArray<string>): string => path.join(".")

const isSecretId = Schema.is(SecretId)
const decodeRef = Schema.decodeUnknownOption(SecretRef)

/** Whether the value means to be a reference, readable or not. */
export const isSecretRefObject = (value: unknown): boolean =>
  isJsonObject(value) && value["type"] === "secret_ref"

const schemasOf = (value: unknown): ReadonlyArray<JsonObject> =>
  isJsonObject(value) ? [value] : Array.isArray(value) ? value.filter(isJsonObject) : []

/** What a local reference such as `#/$defs/key` leads to. */
const referred = (root: JsonObject, reference: unknown): ReadonlyArray<JsonObject> => {
  if (typeof reference !== "string" || !reference.startsWith("#")) return []
  let found: unknown = root
  for (const word of reference.slice(1).split("/").slice(1)) {
    found = isJsonObject(found) ? found[word.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined
  }
  return schemasOf(found)
}

/** Every schema that speaks about one value, each once. */
export const schemasAt = (root: JsonObject, given: ReadonlyArray<JsonObject>): ReadonlyArray<JsonObject> => {
  const known = new Set<JsonObject>()
  const visit = (schema: JsonObject): void => {
    if (known.has(schema)) return
    known.add(schema)
    referred(root, schema["$ref"]).forEach(visit)
    for (const word of ["allOf", "anyOf", "oneOf", "if", "then", "else"]) {
      schemasOf(schema[word]).forEach(visit)
    }
  }
  given.forEach(visit)
  return [...known]
}

/** The schemas of a property or of an item. */
export const schemasBelow = (
  schemas: ReadonlyArray<JsonObject>,
  key: string,
  isItem: boolean
): ReadonlyArray<JsonObject> =>
  schemas.flatMap((schema) => {
    if (isItem) {
      const before = schema["prefixItems"]
      const own = Array.isArray(before) ? before[Number(key)] : undefined
      return schemasOf(own ?? schema["items"])
    }
    const properties = schema["properties"]
    const own = isJsonObject(properties) && Object.hasOwn(properties, key) ? properties[key] : undefined
    return schemasOf(own ?? schema["additionalProperties"])
  })

export const marksSecret = (schemas: ReadonlyArray<JsonObject>): boolean =>
  schemas.some((schema) => schema["format"] === "secret-ref")

/** The parts of an object or of an array by their keys. */
export const partsOf = (value: unknown): ReadonlyArray<readonly [key: string, part: unknown]> =>
  isJsonObject(value) || Array.isArray(value) ? Object.entries(value) : []

/** The reference that stands there; none where it is no reference. */
const refOf = (value: unknown): Option.Option<SecretRef> =>
  isSecretId(value)
    ? Option.some({ type: "secret_ref", secretId: value, version: "latest" })
    : decodeRef(value)

const isEmpty = (value: unknown): boolean => value === undefined || value === null || value === ""

/** The places of a config, and what is wrong at them. At most `configSecretsMax`; what is beyond is invalid. */
export const secretPlacesOf = (config: JsonObject, schema: JsonObject = {}): SecretPlaces => {
  const places: Array<SecretPlace> = []
  const invalid: Array<ReadonlyArray<string>> = []
  const take = (value: unknown, path: ReadonlyArray<string>): void => {
    const ref = Option.getOrUndefined(refOf(value))
    if (ref === undefined || places.length >= configSecretsMax) invalid.push(path)
    else places.push({ path, ref })
  }
  const visit = (value: unknown, given: ReadonlyArray<JsonObject>, path: ReadonlyArray<string>): void => {
    const schemas = schemasAt(schema, given)
    if (isSecretRefObject(value) || (marksSecret(schemas) && !isEmpty(value))) return take(value, path)
    const parts = partsOf(value)
    if (parts.length > 0 && path.length >= configDepthMax) return void invalid.push(path)
    for (const [key, part] of parts) {
      visit(part, schemasBelow(schemas, key, Array.isArray(value)), [...path, key])
    }
  }
  visit(config, [schema], [])
  return { places, invalid }
}

const replaced = (value: unknown, path: ReadonlyArray<string>, put: unknown): unknown => {
  const [key, ...rest] = path
  if (key === undefined) return put
  if (Array.isArray(value)) {
    return value.map((part, index) => (String(index) === key ? replaced(part, rest, put) : part))
  }
  return isJsonObject(value) ? { ...value, [key]: replaced(value[key], rest, put) } : value
}

/** The config with a text in the place of each reference. */
export const withTexts = (
  config: JsonObject,
  texts: ReadonlyArray<{ readonly path: ReadonlyArray<string>; readonly text: string }>
): JsonObject =>
  texts.reduce<JsonObject>((filled, { path, text }) => {
    const next = replaced(filled, path, text)
    return isJsonObject(next) ? next : filled
  }, config)
