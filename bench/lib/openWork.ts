/**
 * P13's contenders: a registry of many records opened and read, by the product and by its yardsticks. The page cache is
 * warm, and so is the code after the first of the opens that a run is the median of; the first open of a new process is
 * measured beside it. Of the product every record has to be the one that was written.
 */
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { promisify } from "node:util"
import type { SandboxRecord } from "../../src/domain/registry/Record.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { fillPeers, idOf, type Reader, textAt } from "./openPeers.ts"
import { openProduct } from "./registryStage.ts"
import { sampleNode } from "./sampleRecord.ts"
import { median } from "./statistics.ts"

/** Fewer opens than these have no median. */
const opensMin = 3

/** Where the registry of so many records is, below the directory of the suite. */
export const placeOf = (directory: string, records: number): string => Path.join(directory, `of-${records}`)

/** A committed registry as a daemon has left it, with as many records, and the same records for the yardsticks. */
export const fill = async (place: string, records: number): Promise<void> => {
  const write = (name: string, content: unknown): void =>
    Files.writeFileSync(
      Path.join(place, name),
      typeof content === "string" ? content : JSON.stringify(content),
      { mode: 0o600 }
    )
  for (const [name, mode] of [
    ["records", 0o700],
    ["runtime", 0o711]
  ] as const)
    Files.mkdirSync(Path.join(place, name), { recursive: true, mode })
  Files.chmodSync(place, 0o700)
  write("runtime/owner.json", { version: 1, owner: sampleNode })
  write("records/meta.json", { version: 2, owner: sampleNode })
  write("sandboxes.json", { version: 2, owner: sampleNode, sandboxes: {} })
  for (let index = 0; index < records; index++) write(`records/${idOf(index)}.json`, textAt(index))
  await fillPeers(Path.join(place, "peers"), records)
}

/** Opens again and again while the time of the run lasts. */
const opens = async (load: Load, open: () => unknown): Promise<Figures> => {
  const millis: Array<number> = []
  const end = performance.now() + load.seconds * 1000
  while (millis.length < opensMin || performance.now() < end) {
    const begun = performance.now()
    await open()
    millis.push(performance.now() - begun)
  }
  return { millis: median(millis), microsEach: (median(millis) * 1000) / load.workers }
}

/** The times of one record, with the growth against the smallest registry of the same round. */
const withGrowth = () => {
  let smallest = Number.NaN
  return (figures: Figures, load: Load, isSmallest: boolean): Figures => {
    if (isSmallest) smallest = figures["microsEach"] ?? Number.NaN
    return { ...figures, growth: (figures["microsEach"] ?? Number.NaN) / smallest }
  }
}

/** A sentence when one of the records is gone or not what was written. */
export const wrongRecords = (
  records: ReadonlyArray<SandboxRecord>,
  wanted: number
): ReadonlyArray<string> => {
  const texts = new Map(records.map((record) => [record.id as string, JSON.stringify(record)]))
  const wrong = Array.from({ length: wanted }, (_, index) => index).filter(
    (index) => !textAt(index).includes(`"record":${texts.get(idOf(index))}`)
  )
  return wrong.length === 0 && texts.size === wanted
    ? []
    : [`${wrong.length} of ${wanted} records are not what was written, and ${texts.size} were read`]
}

/** The product's own open, and the same once in a process of its own. */
export const productOpen = (directory: string, smallest: number): Contender => {
  let read: ReadonlyArray<SandboxRecord> = []
  let wanted = 0
  const grown = withGrowth()
  return {
    name: "openRegistry",
    run: (load) =>
      Effect.tryPromise(async () => {
        const place = placeOf(directory, load.workers)
        const figures = await opens(load, async () => {
          read = (await Effect.runPromise(openProduct(place))).records
        })
        wanted = load.workers
        const { stdout } = await promisify(execFile)(process.execPath, [
          Path.join(import.meta.dirname, "openOnce.ts"),
          place
        ])
        const first = JSON.parse(stdout) as Figures
        if (first["records"] !== wanted) throw new Error(`a new process read ${first["records"]} records`)
        return {
          ...grown(figures, load, load.workers === smallest),
          firstMillis: first["millis"]!,
          grownMebibytes: first["grownMebibytes"]!
        }
      }),
    check: Effect.sync(() => wrongRecords(read, wanted))
  }
}

export const readerOpen = (
  name: string,
  directory: string,
  read: Reader,
  smallest: number,
  below = "peers"
): Contender => {
  let found = 0
  let wanted = 0
  const grown = withGrowth()
  return {
    name,
    run: (load) =>
      Effect.tryPromise(async () => {
        const place = Path.join(placeOf(directory, load.workers), below)
        const figures = await opens(load, () => (found = read(place)))
        wanted = load.workers
        return grown(figures, load, load.workers === smallest)
      }),
    check: Effect.sync(() => (found === wanted ? [] : [`${found} of ${wanted} records were read`]))
  }
}
