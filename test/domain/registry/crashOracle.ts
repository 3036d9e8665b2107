/**
 * What may come up after a crash, and what does. The oracle knows what has been answered and what is in flight; every
 * state that a power failure may leave is opened by the real program on the real adapter, and has to hold each record
 * as it was before its mutation or as it is after it. Source: RG-COM-05, RG-COM-06, RG-MIG-03.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Identifiers } from "../../../src/domain/Identifiers.ts"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import { RegistryFiles } from "../../../src/domain/registry/RegistryFiles.ts"
import type { Disk } from "../../../src/infra/filesystem/diskSteps.ts"
import * as NodeFiles from "../../../src/infra/filesystem/RegistryFiles.ts"
import { type SimulatedDisk, simulatedRoot } from "../../support/simulatedDisk.ts"
import { startLife } from "../../support/simulatedDiskCalls.ts"
import {
  crashImagesOf,
  describeImage,
  type DiskImage,
  diskOf,
  visibleImageOf
} from "../../support/simulatedDiskCrash.ts"

/** What an open answers about a state, or why it refuses. Records by id, as their text. */
export type Reopened =
  | { readonly owner: string; readonly records: ReadonlyMap<SandboxId, string> }
  | { readonly refused: string }

/** Ids in the order in which they are asked for, so that equal histories make equal disks; each family has its own. */
export const numberedIdentifiers = (family = 0) => {
  let drawn = 0
  return Identifiers.of({
    uuid: Effect.sync(() => `0000000${family}-0000-4000-9000-${String(++drawn).padStart(12, "0")}`),
    token: Effect.succeed("0123456789abcdef".repeat(4))
  })
}

/** The ports of a registry over this disk, for the length of the scope. */
export const portsOver = (
  disk: Disk,
  identifiers = numberedIdentifiers(),
  adapt: (files: RegistryFiles["Service"]) => RegistryFiles["Service"] = (files) => files
) =>
  Effect.map(NodeFiles.make(simulatedRoot, disk), (files) =>
    Context.make(RegistryFiles, adapt(files)).pipe(Context.add(Identifiers, identifiers))
  )

let families = 0

/** Opens what is on the disk, and leaves there what that leaves. */
export const reopen = (disk: SimulatedDisk): Reopened =>
  Effect.runSync(
    Effect.scoped(
      Effect.gen(function* () {
        families = 1 + (families % 9)
        const ports = yield* portsOver(startLife(disk), numberedIdentifiers(families))
        const opened = yield* Effect.result(Effect.provideContext(openRegistry(), ports))
        if (Result.isFailure(opened)) return { refused: opened.failure.message }
        const { owner, records } = opened.success
        return { owner, records: new Map(records.map((record) => [record.id, JSON.stringify(record)])) }
      })
    )
  )

/** What is known about the registry at one moment. */
export interface Oracle {
  /** The owner that an open has answered. */
  owner: string | null
  readonly committed: Map<SandboxId, string>
  /** What each mutation in flight would make of its record; null is its removal. */
  readonly inFlight: Map<SandboxId, string | null>
}

export const makeOracle = (): Oracle => ({ owner: null, committed: new Map(), inFlight: new Map() })

/** The mutation is answered, or seen: nothing may take it back. */
export const settle = (oracle: Oracle, sandbox: SandboxId, after: string | null): void => {
  oracle.inFlight.delete(sandbox)
  if (after === null) oracle.committed.delete(sandbox)
  else oracle.committed.set(sandbox, after)
}

/** Why the state may not come up so, or null. */
export const faultOf = (oracle: Oracle, reopened: Reopened): string | null => {
  if ("refused" in reopened) return `the open refuses: ${reopened.refused}`
  if (oracle.owner !== null && reopened.owner !== oracle.owner) return "it has another owner"
  for (const sandbox of new Set([
    ...reopened.records.keys(),
    ...oracle.committed.keys(),
    ...oracle.inFlight.keys()
  ])) {
    const seen = reopened.records.get(sandbox) ?? null
    const before = oracle.committed.get(sandbox) ?? null
    const isAfter = oracle.inFlight.has(sandbox) && seen === oracle.inFlight.get(sandbox)
    if (seen !== before && !isAfter) {
      return `${sandbox} is ${seen === null ? "gone" : seen === before ? "as before" : "neither as before nor as after"}`
    }
  }
  return null
}

/** A state that came up as it may not. */
export interface Violation {
  readonly seed: number
  readonly moment: string
  readonly why: string
  readonly disk: ReadonlyArray<string>
}

/** One run of the enumeration over many histories. */
export interface Enumeration {
  readonly opened: Map<string, Reopened>
  readonly violations: Array<Violation>
  /** Moments at which the disk was looked at, and states that were compared there. */
  moments: number
  comparisons: number
}

export const makeEnumeration = (): Enumeration => ({
  opened: new Map(),
  violations: [],
  moments: 0,
  comparisons: 0
})

/** Opens the state once, however often it is met; a second open of what the first has left answers the same. */
export const openOnce = (enumeration: Enumeration, image: DiskImage): Reopened => {
  const known = enumeration.opened.get(image.key)
  if (known !== undefined) return known
  const disk = diskOf(image)
  const first = reopen(disk)
  const left = visibleImageOf(disk.root)
  const second = left.key === image.key ? first : openOnce(enumeration, left)
  const answer = sameAnswer(first, second) ? first : { refused: "a second open answers something else" }
  enumeration.opened.set(image.key, answer)
  return answer
}

export const sameAnswer = (one: Reopened, other: Reopened): boolean =>
  "refused" in one || "refused" in other
    ? "refused" in one && "refused" in other && one.refused === other.refused
    : one.owner === other.owner &&
      one.records.size === other.records.size &&
      [...one.records].every(([sandbox, text]) => other.records.get(sandbox) === text)

/** Compares every state that the disk may be left in now with the oracle. What cannot be enumerated is a violation. */
export const compareAll = (
  enumeration: Enumeration,
  oracle: Oracle,
  at: { readonly disk: SimulatedDisk; readonly seed: number; readonly moment: string }
): void => {
  const { disk, moment, seed } = at
  const blame = (why: string, left: ReadonlyArray<string>): void =>
    void enumeration.violations.push({ seed, moment, why, disk: left })
  enumeration.moments += 1
  try {
    for (const image of crashImagesOf(disk)) {
      enumeration.comparisons += 1
      const why = faultOf(oracle, openOnce(enumeration, image))
      if (why !== null) return blame(why, describeImage(image))
    }
  } catch (error) {
    blame(`the states cannot be enumerated: ${String(error)}`, describeImage(visibleImageOf(disk.root)))
  }
}
