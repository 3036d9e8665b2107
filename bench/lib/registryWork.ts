/**
 * P12's own contender: records changed through the product's registry, on its own files. After each run the directory
 * is opened again, and what is read from the disk must be what the registry had in memory.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { randomBytes, randomUUID } from "node:crypto"
import * as Files from "node:fs"
import { Identifiers } from "../../src/domain/Identifiers.ts"
import type { SandboxId } from "../../src/domain/Identity.ts"
import { makeRegistry } from "../../src/domain/registry/makeRegistry.ts"
import { openRegistry } from "../../src/domain/registry/openRegistry.ts"
import { SandboxRecord } from "../../src/domain/registry/Record.ts"
import * as RegistryFiles from "../../src/infra/filesystem/RegistryFiles.ts"
import { loopEffects } from "./closedLoop.ts"
import type { Contender } from "./definition.ts"
import { recordsWritten } from "./recordFloors.ts"
import { sampleRecord, writtenNumber } from "./sampleRecord.ts"

const capacity = { sandboxes: recordsWritten, cpuMillis: 64_000, memoryBytes: 64 * 1024 ** 3 }

const identifiers = Layer.succeed(Identifiers, {
  uuid: Effect.sync(() => randomUUID()),
  token: Effect.sync(() => randomBytes(32).toString("hex"))
})

const portsOn = (directory: string) => Layer.merge(RegistryFiles.layer(directory), identifiers)

/** Opens the directory as a daemon would at its start, and reads every record. */
const readAgain = (directory: string) =>
  Effect.map(openRegistry(), ({ records }) => records).pipe(Effect.provide(portsOn(directory)), Effect.scoped)

const differences = (
  memory: ReadonlyMap<SandboxId, SandboxRecord>,
  disk: ReadonlyArray<SandboxRecord>
): ReadonlyArray<string> => {
  const wrong = disk.filter((record) => JSON.stringify(record) !== JSON.stringify(memory.get(record.id)))
  return [
    ...(disk.length === memory.size ? [] : [`${disk.length} of ${memory.size} records are on the disk`]),
    ...wrong.map((record) => `${record.id} is another on the disk than in memory`)
  ]
}

/** `Registry.update` in as many fibers as there are writers, each change of another record than the one before. */
export const registryWrites = (directory: string): Contender => {
  let memory: ReadonlyMap<SandboxId, SandboxRecord> = new Map()
  return {
    name: "Registry.update",
    run: (load) =>
      Effect.gen(function* () {
        Files.rmSync(directory, { recursive: true, force: true })
        Files.mkdirSync(directory, { mode: 0o700 })
        const registry = yield* makeRegistry(yield* openRegistry(), capacity)
        const records = Array.from({ length: recordsWritten }, (_, index) =>
          sampleRecord(index, writtenNumber(0))
        )
        yield* Effect.forEach(records, (record) => registry.admit(record), { discard: true })
        let write = 0
        const figures = yield* loopEffects(load, () => {
          const number = writtenNumber(++write)
          return registry.update(records[write % recordsWritten]!.id, (record) =>
            Result.succeed(new SandboxRecord({ ...record, metadata: { ...record.metadata, write: number } }))
          )
        })
        memory = yield* registry.inventory
        return figures
      }).pipe(Effect.provide(portsOn(directory))),
    check: Effect.map(
      Effect.suspend(() => readAgain(directory)),
      (disk) => differences(memory, disk)
    )
  }
}
