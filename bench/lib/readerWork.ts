/**
 * P14's contenders: somebody who reads the inventory at every turn of the event loop, alone, and beside writers that
 * never rest, on a disk whose flushes take so many milliseconds more. A read may show no write that is not durable,
 * none older than what was acknowledged, and none after which it has shown a newer one.
 */
import * as Effect from "effect/Effect"
import type { Registry } from "../../src/domain/registry/Registry.ts"
import { loopEffects } from "./closedLoop.ts"
import type { Contender, Load } from "./definition.ts"
import { measuredDisk, type Meter } from "./measuredDisk.ts"
import { differences, freshRegistry, openProduct, portsOn } from "./registryStage.ts"
import { numbered } from "./registryWork.ts"
import { writtenNumber } from "./sampleRecord.ts"
import { percentile } from "./statistics.ts"

/** Writers that share a batch as they may. */
const writers = 4
/** A write is durable behind the flush of its file and the one of the directory. */
const flushesOfWrite = 2

type Service = Registry["Service"]
type Ids = Effect.Success<ReturnType<typeof freshRegistry>>["ids"]

/** What each record's number may be, and what readers have seen of it. */
export class Watch {
  readonly faults = new Set<string>()
  private readonly acknowledged: Array<number>
  private readonly seen: Array<number>
  /** Flushes that had ended when the write of this number was asked for. */
  private readonly flushesAsked: Array<number> = [0]
  private readonly meter: Meter

  constructor(records: number, meter: Meter) {
    this.acknowledged = Array.from({ length: records }, () => 0)
    this.seen = [...this.acknowledged]
    this.meter = meter
  }
  asked(): number {
    return this.flushesAsked.push(this.meter.flushes()) - 1
  }
  answered(number: number): void {
    this.acknowledged[number % this.acknowledged.length] = number
  }
  read(record: number, number: number): void {
    if (number < this.acknowledged[record]!) this.faults.add("a read showed less than was acknowledged")
    if (number < this.seen[record]!) this.faults.add("a read showed an older state than one before it")
    if (number > this.seen[record]! && this.meter.flushes() - this.flushesAsked[number]! < flushesOfWrite)
      this.faults.add("a read showed a write that was not durable")
    this.seen[record] = number
  }
}

/** Reads at every turn until the writers have ended; times count behind the warm-up. */
const readAlways = async (
  registry: Service,
  ids: Ids,
  watch: Watch,
  state: { readonly load: Load; isOver: boolean }
): Promise<ReadonlyArray<number>> => {
  const millis: Array<number> = []
  const begun = performance.now()
  const from = begun + state.load.warmUpSeconds * 1000
  const until = from + state.load.seconds * 1000
  for (let turn = 0; !state.isOver; turn++) {
    const before = performance.now()
    await new Promise(setImmediate)
    const record = turn % ids.length
    const found = Effect.runSync(registry.inventory).get(ids[record]!)
    const after = performance.now()
    if (before >= from && after < until) millis.push(after - before)
    watch.read(record, Number(found?.metadata["write"]))
  }
  return millis
}

const pause = (load: Load) => Effect.sleep((load.warmUpSeconds + load.seconds) * 1000)

/** Without writers it is what a turn of the event loop costs here. */
const readersOf = (name: string, directory: string, isAlone: boolean): Contender => {
  let memory: Parameters<typeof differences>[0] = new Map()
  let faults: ReadonlySet<string> = new Set()
  return {
    name,
    run: (load) => {
      const meter = measuredDisk()
      return Effect.gen(function* () {
        const { ids, registry } = yield* freshRegistry(directory)
        meter.begin(load.workers)
        const watch = new Watch(ids.length, meter)
        faults = watch.faults
        const state = { load, isOver: false }
        const write = Effect.suspend(() => {
          const number = watch.asked()
          return Effect.tap(registry.update(ids[number % ids.length]!, numbered(writtenNumber(number))), () =>
            Effect.sync(() => watch.answered(number))
          )
        })
        const writing = isAlone ? pause(load) : loopEffects({ ...load, workers: writers }, () => write)
        const [millis, written] = yield* Effect.all(
          [
            Effect.promise(() => readAlways(registry, ids, watch, state)),
            Effect.ensuring(
              writing,
              Effect.sync(() => void (state.isOver = true))
            )
          ],
          { concurrency: "unbounded" }
        )
        memory = yield* registry.inventory
        return {
          p50Millis: percentile(millis, 0.5),
          p99Millis: percentile(millis, 0.99),
          maxMillis: percentile(millis, 1),
          reads: millis.length,
          writes: written?.["operationsAll"] ?? 0
        }
      }).pipe(Effect.provide(portsOn(directory, meter.disk)))
    },
    check: Effect.map(
      Effect.suspend(() => openProduct(directory)),
      ({ records }) => [...faults, ...differences(memory, records)]
    )
  }
}

export const readersAlone = (directory: string): Contender => readersOf("reads alone", directory, true)

export const readersBesideWrites = (directory: string): Contender =>
  readersOf("reads beside writes", directory, false)
