/**
 * Creating a sandbox: a durable, charged record in state Pending, before anything native exists. Starting it is
 * lifecycle.ts. Source: RG-RUN-03, RG-BUD-04, BX-01.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { GuestSpec } from "../guests/GuestSpec.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { Identifiers } from "../Identifiers.ts"
import { RunState } from "../reclamation/RunState.ts"
import { observeStep } from "./observeStep.ts"
import { SandboxRecord } from "./Record.ts"
import { Registry, SandboxIdTaken, SandboxStateRefused } from "./Registry.ts"
import { findInvalidField, type SandboxRequest } from "./sandboxRequest.ts"

const program = "registry.createSandbox"

/** The launch of a record, or of a request that has no run and no attempt yet. */
export const specOf = (
  record: Omit<SandboxRequest, "metadata" | "lifeSeconds"> & Pick<SandboxRecord, "runId" | "attemptId">
): GuestSpec =>
  new GuestSpec({
    sandbox: record.id,
    generation: record.generation,
    runId: record.runId,
    attemptId: record.attemptId,
    image: record.image,
    argv: record.argv,
    environment: record.environment,
    cpuMillis: record.cpuMillis,
    memoryBytes: record.memoryBytes,
    processesMax: record.processesMax,
    disk: record.disk
  })

const makeRecord = Effect.fnUntraced(function* (request: SandboxRequest) {
  const { token, uuid } = yield* Identifiers
  const createdAtMillis = yield* Clock.currentTimeMillis
  const { lifeSeconds, ...asked } = request
  return new SandboxRecord({
    ...asked,
    runId: yield* uuid,
    attemptId: yield* uuid,
    createdAtMillis,
    expiresAtMillis: createdAtMillis + lifeSeconds * 1_000,
    status: "Pending",
    statusReason: null,
    deletion: null,
    endpointToken: yield* token
  })
})

/** A value whose form does not depend on the order in which somebody named the pairs. */
const canonical = (value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1))
    : value

const askedFields = [
  "id",
  "generation",
  "image",
  "argv",
  "environment",
  "metadata",
  "cpuMillis",
  "memoryBytes",
  "processesMax",
  "disk"
] as const

/** Whether the record is what this request asked for; its life does not count, since it may have been renewed. */
export const answersRequest = (record: SandboxRecord, request: SandboxRequest): boolean =>
  askedFields.every(
    (field) => JSON.stringify(canonical(record[field])) === JSON.stringify(canonical(request[field]))
  )

/**
 * Charges and records a sandbox; the record is durable when it answers. The same request again answers the record
 * that is there. Refused with `InvalidSandboxRequest`, `GuestSpecRefused` (the image is missing), `SandboxIdTaken`
 * (another request had the id, or a tombstone fences it), `SandboxStateRefused` (it is being deleted),
 * `CapacityExceeded`, `RegistryFull`. A caller who hangs up does not cancel it.
 */
export const createSandbox = Effect.fn(program)(function* (request: SandboxRequest) {
  const registry = yield* Registry
  const runState = yield* RunState
  const supervisor = yield* GuestSupervisor
  const invalid = findInvalidField(request)
  if (invalid !== null) return yield* invalid
  const create = Effect.gen(function* () {
    const existing = (yield* registry.inventory).get(request.id)
    if (existing !== undefined) {
      if (existing.deletion !== null) {
        return yield* new SandboxStateRefused({
          sandbox: request.id,
          status: "being deleted",
          wanted: "create"
        })
      }
      return answersRequest(existing, request)
        ? existing
        : yield* new SandboxIdTaken({ sandbox: request.id, by: "record" })
    }
    if (Option.isSome(yield* runState.readTombstone(request.id))) {
      return yield* new SandboxIdTaken({ sandbox: request.id, by: "tombstone" })
    }
    const record = yield* makeRecord(request)
    yield* supervisor.validate(specOf(record))
    yield* observeStep(program, "admit", registry.admit(record))
    return record
  })
  return yield* registry.exclusive(request.id, create)
}, Effect.uninterruptible)
