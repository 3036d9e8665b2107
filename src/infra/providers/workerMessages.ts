/**
 * What a daemon and a provider's worker say to each other: JSON-RPC 2.0, one message a line of UTF-8. The daemon asks,
 * the worker answers; both may tell something without an answer. docs/provider-plugins.md is its description for those
 * who write a worker.
 */
import { providerMessageBytesMax } from "../../domain/Bounds.ts"
import { isJsonObject, type JsonObject } from "../../domain/Json.ts"

export const protocolVersion = 1

/** Methods of the connection itself; everything else is a provider's. */
export const initializeMethod = "initialize"
export const pingMethod = "ping"
export const cancelNote = "cancel"
export const shutdownNote = "shutdown"
export const logNote = "log"

/** What stands beside the parameters, so that these are exactly the caller's. */
export interface Meta {
  readonly traceparent?: string
}

export type FromWorker =
  | { readonly _tag: "Answer"; readonly id: number; readonly result: unknown; readonly meta: Meta }
  | {
      readonly _tag: "Error"
      readonly id: number
      readonly code: number
      readonly message: string
      readonly data: unknown
    }
  | {
      readonly _tag: "Log"
      readonly id: number
      readonly stream: "stdout" | "stderr"
      readonly text: string
    }

const traceparentPattern = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

const metaOf = (value: unknown): Meta =>
  isJsonObject(value) &&
  typeof value["traceparent"] === "string" &&
  traceparentPattern.test(value["traceparent"])
    ? { traceparent: value["traceparent"] }
    : {}

const errorOf = (id: number, error: JsonObject): FromWorker | undefined =>
  Number.isInteger(error["code"]) && typeof error["message"] === "string"
    ? { _tag: "Error", id, code: Number(error["code"]), message: error["message"], data: error["data"] }
    : undefined

const logOf = (params: unknown): FromWorker | undefined => {
  if (!isJsonObject(params)) return undefined
  const { id, stream, text } = params
  return Number.isInteger(id) && (stream === "stdout" || stream === "stderr") && typeof text === "string"
    ? { _tag: "Log", id: Number(id), stream, text }
    : undefined
}

/** The message of a line, or undefined when it is none of the protocol's: its sender cannot be understood any more. */
export const readMessage = (line: string): FromWorker | undefined => {
  let parsed: unknown
  try {
    parsed = JSON.parse(line)
  } catch {
    return undefined
  }
  if (!isJsonObject(parsed) || parsed["jsonrpc"] !== "2.0") return undefined
  if (parsed["method"] === logNote) return logOf(parsed["params"])
  const { error, id } = parsed
  if (!Number.isInteger(id)) return undefined
  if (isJsonObject(error)) return errorOf(Number(id), error)
  return "error" in parsed
    ? undefined
    : { _tag: "Answer", id: Number(id), result: parsed["result"], meta: metaOf(parsed["meta"]) }
}

export const request = (id: number, method: string, params: JsonObject, meta: Meta): string =>
  // A meta without a trace leaves no member.
  `${JSON.stringify({ jsonrpc: "2.0", id, method, params, meta: meta.traceparent === undefined ? undefined : meta })}\n`

export const notification = (method: string, params: JsonObject): string =>
  `${JSON.stringify({ jsonrpc: "2.0", method, params })}\n`

/** Cuts what arrives into lines. Answers false once a line is longer than a message may be; nothing is kept then. */
export const lineReader = (take: (line: string) => void): ((bytes: Buffer) => boolean) => {
  let parts: Array<Buffer> = []
  let length = 0
  const add = (part: Buffer): boolean => {
    length += part.length
    if (length > providerMessageBytesMax) {
      parts = []
      return false
    }
    parts.push(part)
    return true
  }
  return (bytes) => {
    let from = 0
    for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, from)) {
      if (!add(bytes.subarray(from, end))) return false
      const line = (parts.length === 1 ? parts[0]! : Buffer.concat(parts)).toString("utf8")
      parts = []
      length = 0
      from = end + 1
      if (line.trim() !== "") take(line)
    }
    return from === bytes.length || add(bytes.subarray(from))
  }
}
