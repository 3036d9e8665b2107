/**
 * P12's own contender: records changed through the product's registry, on its own files. Flushes are counted as the
 * disk answers them. After each run the directory is opened again, and what is read from the disk must be what
 * the registry had in memory.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { SandboxId } from "../../src/domain/Identity.ts"
import { SandboxRecord } from "../../src/domain/registry/Record.ts"
import { loopEffects } from "./closedLoop.ts"
import type { Contender } from "./definition.ts"
import { placeOfRun } from "./disk.ts"
import { measuredDisk } from "./measuredDisk.ts"
import { differences, freshRegistry, openProduct, portsOn } from "./registryStage.ts"
import { writtenNumber } from "./sampleRecord.ts"

/** The change of a record's number, as pure as every change of the registry. */
export const numbered = (number: string) => (record: SandboxRecord) =>
  Result.succeed(new SandboxRecord({ ...record, metadata: { ...record.metadata, write: number } }))

/** `Registry.update` in as many fibers as there are writers, each change of another record than the one before. */
export const registryWrites = (place: string): Contender => {
  let directory = place
  let memory: ReadonlyMap<SandboxId, SandboxRecord> = new Map()
  return {
    name: "Registry.update",
    run: (load) => {
      const meter = measuredDisk()
      directory = placeOfRun(place)
      return Effect.gen(function* () {
        const { registry, ids } = yield* freshRegistry(directory)
        meter.begin()
        let write = 0
        const figures = yield* loopEffects(load, () => {
          write += 1
          return registry.update(ids[write % ids.length]!, numbered(writtenNumber(write)))
        })
        memory = yield* registry.inventory
        return {
          ...figures,
          flushesEach: meter.flushes() / figures["operationsAll"]!,
          blockedP999Millis: meter.blockedMillis(0.999)
        }
      }).pipe(Effect.provide(portsOn(directory, meter.disk)))
    },
    check: Effect.map(
      Effect.suspend(() => openProduct(directory)),
      ({ records }) => differences(memory, records)
    )
  }
}
