/**
 * Reads one record file: text in, record or reason out. A node may hold thousands of records, and the schema takes
 * longer over one than the disk does, so what is plainly right is recognised by hand; whatever is not is judged by
 * the schema, which alone refuses. Source: RG-LAY-04, RG-LAY-05.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { NodeId, SandboxId } from "../Identity.ts"
import { DeletionIntent, RecordFile, SandboxRecord, SandboxStatus } from "./Record.ts"

type Fields = Readonly<Record<string, unknown>>

const isText = (value: unknown): boolean => typeof value === "string"
const isTextOrNull = (value: unknown): boolean => value === null || typeof value === "string"
const isWhole = (value: unknown): boolean => Number.isSafeInteger(value)
const isPositive = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) > 0
const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)
const isTexts = (value: unknown): boolean => isObject(value) && Object.values(value).every(isText)

const statuses: ReadonlySet<unknown> = new Set(SandboxStatus.literals)
const reasons: ReadonlySet<unknown> = new Set(DeletionIntent.fields.reason.literals)
const isSandboxId = Schema.is(SandboxId)
const isNodeId = Schema.is(NodeId)

/** Whether it has exactly these keys, each with a value of its kind. */
const hasExactly = (value: unknown, kinds: ReadonlyArray<readonly [string, (value: unknown) => boolean]>) =>
  isObject(value) &&
  Object.keys(value).length === kinds.length &&
  kinds.every(([key, isKind]) => isKind(value[key]))

const isDeletion = (value: unknown): boolean =>
  value === null ||
  hasExactly(value, [
    ["reason", (reason) => reasons.has(reason)],
    ["actor", isText],
    ["requestedAtMillis", isWhole]
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
    ["endpointToken", (value) => isText(value) && /^[0-9a-f]{64}$/.test(value as string)]
  ]

interface ReadFile {
  readonly owner: NodeId
  readonly record: SandboxRecord
}

/** The file's content when it is plainly right, else null; never anything that the schema would refuse. */
export const recognise = (content: unknown): ReadFile | null => {
  if (!isObject(content) || Object.keys(content).length !== 3 || content["version"] !== 2) return null
  const { owner, record } = content
  if (!isNodeId(owner) || !hasExactly(record, recordKinds)) return null
  return { owner, record: Object.assign(Object.create(SandboxRecord.prototype), record) as SandboxRecord }
}

const decodeFile = Schema.decodeUnknownResult(RecordFile)

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Reads `sb-<uuid>.json`; fails with the reason, which repeats nothing of the content. */
export const readRecordFile = (
  text: string,
  expected: { readonly owner: NodeId; readonly name: string }
): Result.Result<SandboxRecord, string> => {
  const content = parse(text)
  if (content === undefined) return Result.fail("it is corrupt or truncated")
  const file = recognise(content) ?? Result.getOrUndefined(decodeFile(content, { onExcessProperty: "error" }))
  if (file === undefined) return Result.fail("it is of another version, or a field of it is wrong or unknown")
  if (file.owner !== expected.owner) return Result.fail("it has another owner than the header")
  if (`${file.record.id}.json` !== expected.name) return Result.fail("its id is not the one in its name")
  return Result.succeed(file.record)
}
