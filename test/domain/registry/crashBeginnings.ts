/**
 * What a history begins with: a fresh directory, or a version-1 registry with what interrupted migrations may have left
 * beside it, all of it durable.
 */
import * as Effect from "effect/Effect"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import { snapshotText } from "../../../src/domain/registry/charges.ts"
import type { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import type { Registry } from "../../../src/domain/registry/Registry.ts"
import type { SeededRandom } from "../../support/seededRandom.ts"
import {
  makeDirectoryNode,
  makeFile,
  makeSimulatedDisk,
  type SimulatedDisk,
  type SimulatedNode
} from "../../support/simulatedDisk.ts"
import { makeOracle, type Oracle } from "./crashOracle.ts"
import { recordOf, withDeletion } from "./fixture.ts"
import { markerText, owner } from "./snapshotFixture.ts"

export interface Beginning {
  readonly disk: SimulatedDisk
  readonly oracle: Oracle
}

const fileOf = (text: string): SimulatedNode => makeFile(Buffer.from(text))
const directoryOf = (entries: Readonly<Record<string, SimulatedNode>>, mode?: number): SimulatedNode =>
  makeDirectoryNode(new Map(Object.entries(entries)), mode)

export const freshBeginning = (): Beginning => ({ disk: makeSimulatedDisk(), oracle: makeOracle() })

/** What stands beside a snapshot whose migration was interrupted; none of it counts. */
const unactivated = (): Readonly<Record<string, SimulatedNode>> => ({
  records: directoryOf({
    "meta.json": fileOf("{"),
    [`${recordOf(4).id}.json`]: fileOf(JSON.stringify(recordOf(4))),
    ".record-1": fileOf("")
  }),
  ".records-1": directoryOf({ [`${recordOf(1).id}.json`]: fileOf("\0\0") }),
  ".sandboxes.json-1": fileOf('{"version":2')
})

const snapshotOf = (
  records: ReadonlyArray<SandboxRecord>,
  beside: Readonly<Record<string, SimulatedNode>>
): Beginning => {
  const entries = {
    "sandboxes.json": fileOf(snapshotText(owner, records)),
    runtime: directoryOf({ "owner.json": fileOf(markerText) }, 0o711),
    ...beside
  }
  return {
    disk: makeSimulatedDisk(makeDirectoryNode(new Map(Object.entries(entries)))),
    oracle: {
      owner,
      committed: new Map<SandboxId, string>(records.map((record) => [record.id, JSON.stringify(record)])),
      inFlight: new Map()
    }
  }
}

/** A version-1 registry of up to two sandboxes. */
export const snapshotBeginning = (random: SeededRandom): Beginning => {
  const records = Array.from({ length: random.below(3) }, (_, at) =>
    recordOf(at + 1, { statusReason: random.pick([null, "of before"]) })
  )
  return snapshotOf(records, random.percent(50) ? unactivated() : {})
}

/** A version-1 registry of one sandbox, beside a records directory that was not even begun to be filled. */
export const unactivatedBeginning = (): Beginning =>
  snapshotOf([recordOf(1)], { records: directoryOf({ "meta.json": fileOf("{") }) })

/** Record 1, and record 2, which is to be deleted. */
export const fillRegistry = (registry: Registry["Service"]) =>
  Effect.gen(function* () {
    yield* registry.admit(recordOf(1))
    yield* registry.admit(recordOf(2))
    yield* registry.update(recordOf(2).id, withDeletion)
  })
