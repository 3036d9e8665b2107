/**
 * Is a request for a sandbox sensible? Pure, and asked before anything is charged. Whether image and disk exist is
 * asked of the supervisor, whether there is room of the registry. Source: RG figures, RG-LAY-05.
 */
import * as Schema from "effect/Schema"
import {
  argvItemBytesMax,
  argvItemsMax,
  diskPathBytesMax,
  environmentKeyBytesMax,
  environmentPairsMax,
  environmentValueBytesMax,
  imageBytesMax,
  runtimeProcessesMax,
  sandboxCpuMillisMax,
  sandboxLifeSecondsMax,
  sandboxLifeSecondsMin,
  sandboxMemoryBytesMax
} from "../Bounds.ts"
import type { Generation, SandboxId } from "../Identity.ts"
import type { RequestOrigin } from "../reclamation/Provenance.ts"
import { bytesOf } from "./charges.ts"

export interface SandboxRequest {
  readonly id: SandboxId
  readonly generation: Generation
  /** `host`, or the absolute path of a root file system. */
  readonly image: string
  readonly argv: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
  readonly metadata: Readonly<Record<string, string>>
  readonly cpuMillis: number
  readonly memoryBytes: number
  readonly processesMax: number
  readonly disk: string | null
  readonly lifeSeconds: number
  /** Left out by the programs of the host, whose requests have no key. */
  readonly origin?: RequestOrigin
}

/** One field of the request is absurd; nothing was charged. It never repeats the value. */
export class InvalidSandboxRequest extends Schema.TaggedError<InvalidSandboxRequest>()(
  "InvalidSandboxRequest",
  {
    field: Schema.String,
    why: Schema.String
  }
) {
  readonly code = "invalid_request"
  override get message(): string {
    return `${this.field} ${this.why}`
  }
}

/** In the order of the names, so that it does not matter in which somebody gave them. */
const byName = (one: readonly [string, unknown], other: readonly [string, unknown]): number =>
  one[0] < other[0] ? -1 : 1

/**
 * What was asked for, as one text: two requests are the same when their texts and their environment's values are. The
 * values stay out, since a hash of the text is shown.
 */
export const requestText = (request: Omit<SandboxRequest, "id" | "origin">): string =>
  JSON.stringify({
    generation: request.generation,
    image: request.image,
    argv: request.argv,
    environment: Object.keys(request.environment).toSorted(),
    metadata: Object.entries(request.metadata).toSorted(byName),
    cpuMillis: request.cpuMillis,
    memoryBytes: request.memoryBytes,
    processesMax: request.processesMax,
    disk: request.disk,
    lifeSeconds: request.lifeSeconds
  })

const wholeFrom = (value: number, minimum: number, maximum: number): string | null =>
  Number.isSafeInteger(value) && value >= minimum && value <= maximum
    ? null
    : `must be a whole number from ${minimum} to ${maximum}`

const textFault = (text: string, bytesMax: number): string | null => {
  if (text.includes("\0")) return "must not contain a NUL byte"
  if (!text.isWellFormed()) return "must be well-formed Unicode"
  return bytesOf(text) <= bytesMax ? null : `must not be longer than ${bytesMax} bytes`
}

const pathFault = (path: string, bytesMax: number): string | null => {
  const segments = path.split("/")
  const normal =
    segments.length > 1 &&
    segments[0] === "" &&
    segments.slice(1).every((segment) => segment !== "" && segment !== "." && segment !== "..")
  return normal ? textFault(path, bytesMax) : "must be an absolute path without empty, `.` or `..` segments"
}

const argvFault = (argv: ReadonlyArray<string>): string | null => {
  if (argv.length > argvItemsMax) return `must not have more than ${argvItemsMax} items`
  if (argv[0] === "") return "must name a program first"
  return argv.map((item) => textFault(item, argvItemBytesMax)).find((why) => why !== null) ?? null
}

const pairsFault = (pairs: Readonly<Record<string, string>>): string | null => {
  const entries = Object.entries(pairs)
  if (entries.length > environmentPairsMax) return `must not have more than ${environmentPairsMax} pairs`
  if (entries.some(([key]) => key === "" || key === "__proto__" || key.includes("=")))
    return "must have keys that are neither empty nor `__proto__` nor contain `=`"
  return (
    entries
      .map(
        ([key, value]) => textFault(key, environmentKeyBytesMax) ?? textFault(value, environmentValueBytesMax)
      )
      .find((why) => why !== null) ?? null
  )
}

/** Whether a life is shorter or longer than this node lets a sandbox live. */
export const findLifeFault = (lifeSeconds: number, lifeSecondsMax: number): InvalidSandboxRequest | null => {
  const why = wholeFrom(lifeSeconds, sandboxLifeSecondsMin, lifeSecondsMax)
  return why === null ? null : new InvalidSandboxRequest({ field: "lifeSeconds", why })
}

/** The first absurd field of the request, or null. */
export const findInvalidField = (request: SandboxRequest): InvalidSandboxRequest | null => {
  const faults: ReadonlyArray<readonly [string, string | null]> = [
    ["image", request.image === "host" ? null : pathFault(request.image, imageBytesMax)],
    ["argv", argvFault(request.argv)],
    ["environment", pairsFault(request.environment)],
    ["metadata", pairsFault(request.metadata)],
    ["cpuMillis", wholeFrom(request.cpuMillis, 1, sandboxCpuMillisMax)],
    ["memoryBytes", wholeFrom(request.memoryBytes, 1, sandboxMemoryBytesMax)],
    ["processesMax", wholeFrom(request.processesMax, 1, runtimeProcessesMax)],
    ["disk", request.disk === null ? null : pathFault(request.disk, diskPathBytesMax)],
    ["lifeSeconds", wholeFrom(request.lifeSeconds, sandboxLifeSecondsMin, sandboxLifeSecondsMax)]
  ]
  const found = faults.find(([, why]) => why !== null)
  return found === undefined ? null : new InvalidSandboxRequest({ field: found[0], why: found[1] ?? "" })
}
