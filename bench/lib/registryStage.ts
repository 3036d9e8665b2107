/**
 * The product's registry on a directory of a benchmark, opened as a daemon does at its start, and the comparison of
 * what is on the disk with what it had in memory.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { randomBytes, randomUUID } from "node:crypto"
import * as Files from "node:fs"
import { Identifiers } from "../../src/domain/Identifiers.ts"
import type { SandboxId } from "../../src/domain/Identity.ts"
import { makeRegistry } from "../../src/domain/registry/makeRegistry.ts"
import { openRegistry } from "../../src/domain/registry/openRegistry.ts"
import type { SandboxRecord } from "../../src/domain/registry/Record.ts"
import type { Disk } from "../../src/infra/filesystem/diskSteps.ts"
import * as RegistryFiles from "../../src/infra/filesystem/RegistryFiles.ts"
import { recordsWritten } from "./recordFloors.ts"
import { sampleRecord, writtenNumber } from "./sampleRecord.ts"

const capacity = { sandboxes: recordsWritten, cpuMillis: 64_000, memoryBytes: 64 * 1024 ** 3 }

const identifiers = Layer.succeed(Identifiers, {
  uuid: Effect.sync(() => randomUUID()),
  token: Effect.sync(() => randomBytes(32).toString("hex"))
})

export const portsOn = (directory: string, disk?: Disk) =>
  Layer.merge(RegistryFiles.layer(directory, disk), identifiers)

/** Opens the directory as a daemon would at its start, and reads every record. */
export const openProduct = (directory: string) =>
  openRegistry().pipe(Effect.provide(portsOn(directory)), Effect.scoped)

/** A registry in a fresh directory with as many records as P12 writes in turn. Records hold the number 0. */
export const freshRegistry = Effect.fnUntraced(function* (directory: string) {
  Files.rmSync(directory, { recursive: true, force: true })
  Files.mkdirSync(directory, { mode: 0o700 })
  const registry = yield* makeRegistry(yield* openRegistry(), capacity)
  const records = Array.from({ length: recordsWritten }, (_, index) => sampleRecord(index, writtenNumber(0)))
  yield* Effect.forEach(records, (record) => registry.admit(record), { discard: true })
  return { registry, ids: records.map(({ id }) => id) }
})

/** What is read from the disk must be what the registry had in memory; a sentence for each difference. */
export const differences = (
  memory: ReadonlyMap<SandboxId, SandboxRecord>,
  disk: ReadonlyArray<SandboxRecord>
): ReadonlyArray<string> => {
  const wrong = disk.filter((record) => JSON.stringify(record) !== JSON.stringify(memory.get(record.id)))
  return [
    ...(disk.length === memory.size ? [] : [`${disk.length} of ${memory.size} records are on the disk`]),
    ...wrong.map((record) => `${record.id} is another on the disk than in memory`)
  ]
}
