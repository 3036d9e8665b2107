/**
 * What a record write costs without a registry: a loop in C, the same loop in plain Node, and one row of SQLite with
 * full flushes. Each is one writer whatever the load says, since a registry commits one mutation at a time too.
 */
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { promisify } from "node:util"
import { counted } from "./counted.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { placeOfRun } from "./disk.ts"
import { numberMark, recordTemplate, writtenNumber } from "./sampleRecord.ts"
import { percentile } from "./statistics.ts"

/** Records that are written in turn, as many as the product's contender has. */
export const recordsWritten = 32

interface Written {
  /** Text of a record by its index. */
  readonly texts: () => ReadonlyArray<string>
  readonly all: number
}

/** Every record holds the number of the last write to it, and is whole. */
export const lastWritesMissing = ({ texts, all }: Written): ReadonlyArray<string> => {
  const [before, after] = recordTemplate().split(numberMark)
  const found = texts().map((text) =>
    text.startsWith(before!) && text.endsWith(after!)
      ? Number(text.slice(before!.length, -after!.length))
      : Number.NaN
  )
  const wanted = Array.from({ length: recordsWritten }, (_, index) => {
    const turns = Math.floor((all - 1 - index) / recordsWritten)
    return turns < 0 ? [] : [turns * recordsWritten + index]
  }).flat()
  const missing = wanted.filter((number) => !found.includes(number))
  return missing.length === 0 && found.length === wanted.length
    ? []
    : [`${missing.length} of ${wanted.length} last writes are not in the records`]
}

/** Puts a record in the place of each that will be written, so that every write replaces one, as in the registry. */
export const layRecords = (directory: string): void => {
  for (let index = 0; index < recordsWritten; index++)
    Files.writeFileSync(Path.join(directory, `record-${index}.json`), recordTemplate(), { mode: 0o600 })
}

/** Texts of the records that have been written since they were laid. */
export const textsOf = (directory: string): ReadonlyArray<string> =>
  Files.readdirSync(directory)
    .map((name) => Files.readFileSync(Path.join(directory, name), "utf8"))
    .filter((text) => text !== recordTemplate())

/** Calls `write` in one loop without letting go of the thread, as its only user would. */
const serialLoop = (load: Load, write: (number: number) => void): Figures => {
  const latencies: Array<number> = []
  const begun = performance.now()
  const warm = begun + load.warmUpSeconds * 1000
  const end = warm + load.seconds * 1000
  let all = 0
  let before = begun
  while (before < end) {
    write(all++)
    const after = performance.now()
    if (before >= warm) latencies.push(after - before)
    before = after
  }
  return {
    operationsAll: all,
    operations: latencies.length,
    perSecond: latencies.length / ((before - warm) / 1000),
    p50Millis: percentile(latencies, 0.5),
    p99Millis: percentile(latencies, 0.99)
  }
}

/** A contender that writes into a fresh place each run and is checked against what it says it wrote. */
export const placed = (
  name: string,
  runIn: (place: string, load: Load) => Effect.Effect<Figures, unknown>,
  texts: (place: string) => ReadonlyArray<string>,
  place: string
): Contender => {
  let directory = place
  return counted(
    name,
    (load) =>
      Effect.suspend(() => {
        directory = placeOfRun(place)
        return runIn(directory, load)
      }),
    (all) => Effect.sync(() => lastWritesMissing({ texts: () => texts(directory), all }))
  )
}

/** The loop in C, compiled before; `template` is the file with the record's text. */
export const nativeFloor = (program: string, template: string, place: string): Contender =>
  placed(
    "C loop",
    (directory, load) =>
      Effect.tryPromise(async () => {
        layRecords(directory)
        const given = [directory, template, recordsWritten, load.warmUpSeconds, load.seconds].map(String)
        const { stdout } = await promisify(execFile)(program, given)
        return JSON.parse(stdout) as Figures
      }),
    textsOf,
    place
  )

/** The same calls in plain Node, synchronous, with nothing around them. */
export const nodeFloor = (place: string): Contender =>
  placed(
    "Node loop",
    (directory, load) =>
      Effect.sync(() => {
        layRecords(directory)
        const template = recordTemplate()
        const folder = Files.openSync(directory, Files.constants.O_RDONLY | Files.constants.O_DIRECTORY)
        const figures = serialLoop(load, (number) => {
          const temporary = Path.join(directory, `.record-${number}.tmp`)
          const file = Files.openSync(temporary, "wx", 0o600)
          Files.writeSync(file, template.replace(numberMark, writtenNumber(number)))
          Files.fsyncSync(file)
          Files.closeSync(file)
          Files.renameSync(temporary, Path.join(directory, `record-${number % recordsWritten}.json`))
          Files.fsyncSync(folder)
        })
        Files.closeSync(folder)
        return figures
      }),
    textsOf,
    place
  )

const openSqlite = (directory: string): DatabaseSync => {
  const database = new DatabaseSync(Path.join(directory, "records.sqlite"))
  database.exec("pragma journal_mode = wal; pragma synchronous = full")
  database.exec("create table if not exists records (id integer primary key, body text not null)")
  return database
}

/** One row a record in SQLite, write-ahead log, flushed at every commit. */
export const sqliteFloor = (place: string): Contender =>
  placed(
    "node:sqlite, synchronous full",
    (directory, load) =>
      Effect.sync(() => {
        const template = recordTemplate()
        const database = openSqlite(directory)
        const upsert = database.prepare(
          "insert into records values (?, ?) on conflict (id) do update set body = excluded.body"
        )
        const figures = serialLoop(load, (number) =>
          upsert.run(number % recordsWritten, template.replace(numberMark, writtenNumber(number)))
        )
        database.close()
        return figures
      }),
    (directory) => {
      const database = openSqlite(directory)
      const rows = database.prepare("select body from records").all()
      database.close()
      return rows.map((row) => String(row["body"]))
    },
    place
  )
