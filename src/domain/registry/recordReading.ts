/**
 * Reads one record file: text in, record or reason out. A node may hold thousands of records, and the schema takes
 * longer over one than the disk does, so what is plainly right is recognised by hand; whatever is not is judged by
 * the schema, which alone refuses. Source: RG-LAY-04, RG-LAY-05.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isNodeId, isSandboxId, NodeId, RequestKey, type SandboxId } from "../Identity.ts"
import { DeletionIntent, RecordFile, SandboxRecord, SandboxStatus } from "./Record.ts"

type Fields = Readonly<Record<string, unknown>>

const isText = (value: unknown): boolean => typeof value === "string"
const isTextOrNull = (value: unknown): boolean => value === null || typeof value === "string"
const isWhole = (value: unknown): boolean => Number.isSafeInteger(value)
const isPositive = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) > 0
const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)
const isTexts = (value: unknown): boolean => {
  if (!isObject(value)) return false
  for (const key in value) if (typeof value[key] !== "string") return false
  return true
}

const statuses: ReadonlySet<unknown> = new Set(SandboxStatus.literals)
const reasons: ReadonlySet<unknown> = new Set(DeletionIntent.fields.reason.literals)
const isRequestKey = Schema.is(RequestKey)

type Kinds = ReadonlyArray<readonly [string, (value: unknown) => boolean]>

const none: Kinds = []

/**
 * Whether it has exactly these keys, each with a value of its kind, and of the optional ones those that it likes. Loops
 * that make nothing, since they are gone through for every field of every record.
 */
const hasExactly = (value: unknown, kinds: Kinds, optionalKinds = none): boolean => {
  if (!isObject(value)) return false
  let keys = kinds.length
  for (const kind of kinds) if (!kind[1](value[kind[0]])) return false
  for (const kind of optionalKinds) {
    if (!Object.hasOwn(value, kind[0])) continue
    if (!kind[1](value[kind[0]])) return false
    keys += 1
  }
  return Object.keys(value).length === keys
}

const isDeletion = (value: unknown): boolean =>
  value === null ||
  hasExactly(value, [
    ["reason", (reason) => reasons.has(reason)],
    ["actor", isText],
    ["requestedAtMillis", isWhole]
  ])

const isHex64 = (value: unknown): boolean => isText(value) && /^[0-9a-f]{64}$/.test(value as string)

const isOrigin = (value: unknown): boolean =>
  hasExactly(value, [
    ["key", isRequestKey],
    ["hash", isHex64],
    ["actor", isText],
    ["startedAtMillis", (at) => at === null || isWhole(at)]
  ])

const isMoment = (value: unknown): boolean =>
  hasExactly(value, [
    ["status", (status) => statuses.has(status)],
    ["atMillis", isWhole],
    ["wanted", isText]
  ])

const recordKinds: ReadonlyArray<readonly [keyof typeof SandboxRecord.fields, (value: unknown) => boolean]> =
  [
    ["id", isSandboxId],
    ["generation", isPositive],
    ["runId", isText],
    ["attemptId", isText],
    ["image", isText],
    ["argv", (value) => Array.isArray(value) && value.every(isText)],
    ["environment", isTexts],
    ["metadata", isTexts],
    ["cpuMillis", isPositive],
    ["memoryBytes", isPositive],
    ["processesMax", isPositive],
    ["disk", isTextOrNull],
    ["createdAtMillis", isWhole],
    ["expiresAtMillis", isWhole],
    ["status", (value) => statuses.has(value)],
    ["statusReason", isTextOrNull],
    ["deletion", isDeletion],
    ["endpointToken", isHex64]
  ]

const optionalKinds: typeof recordKinds = [
  ["origin", isOrigin],
  ["history", (value) => Array.isArray(value) && value.every(isMoment)]
]

interface ReadFile {
  readonly owner: NodeId
  readonly record: SandboxRecord
}

/** The file's content when it is plainly right, else null; never anything that the schema would refuse. */
export const recognise = (content: unknown): ReadFile | null => {
  if (!isObject(content) || Object.keys(content).length !== 3 || content["version"] !== 2) return null
  const { owner, record } = content
  if (!isNodeId(owner) || !hasExactly(record, recordKinds, optionalKinds)) return null
  return { owner, record: Object.assign(Object.create(SandboxRecord.prototype), record) as SandboxRecord }
}

const decodeFile = Schema.decodeUnknownResult(RecordFile)

/** The parsed text, or undefined. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const readFile = (content: unknown): ReadFile | null =>
  recognise(content) ?? Result.getOrElse(decodeFile(content, { onExcessProperty: "error" }), (): null => null)

const anyOwner = NodeId.make("00000000-0000-4000-8000-000000000000")

/** Reads one record of a version-1 snapshot; fails with the reason, which repeats nothing of the content. */
export const readRecord = (content: unknown, id: SandboxId): Result.Result<SandboxRecord, string> => {
  const file = readFile({ version: 2, owner: anyOwner, record: content })
  if (file === null) return Result.fail("a field of it is wrong or unknown")
  return file.record.id === id
    ? Result.succeed(file.record)
    : Result.fail("its id is not the one that it is kept under")
}

/** Reads `sb-<uuid>.json`; fails with the reason, which repeats nothing of the content. */
export const readRecordFile = (
  text: string,
  expected: { readonly owner: NodeId; readonly name: string }
): Result.Result<SandboxRecord, string> => {
  const content = parseJson(text)
  if (content === undefined) return Result.fail("it is corrupt or truncated")
  const file = readFile(content)
  if (file === null) return Result.fail("it is of another version, or a field of it is wrong or unknown")
  if (file.owner !== expected.owner) return Result.fail("it has another owner than the header")
  if (`${file.record.id}.json` !== expected.name) return Result.fail("its id is not the one in its name")
  return Result.succeed(file.record)
}
