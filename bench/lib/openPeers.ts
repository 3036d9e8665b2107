/**
 * P13's yardsticks: the bare loop of the same reads, and the same records out of SQLite and lmdb. Each parses what it
 * reads and looks at owner, id, limits and token, as far as a line of code goes; no schema, no role of a name, no marker.
 */
import * as Files from "node:fs"
import * as Path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { openLmdb } from "./recordPeers.ts"
import { numberMark, recordTemplate, sampleNode } from "./sampleRecord.ts"

/** What is looked at. */
interface Content {
  readonly owner: string
  readonly record: {
    readonly id: string
    readonly cpuMillis: number
    readonly memoryBytes: number
    readonly endpointToken: string
  }
}

/** Answers how many records it read and found right; throws at the first that is not. */
export type Reader = (place: string) => number

const readsOne = Files.constants.O_RDONLY | Files.constants.O_NOFOLLOW
const bytesMax = 1024 * 1024

const checked = (text: string, id: string): Content["record"] => {
  // The files are of the benchmark's own making.
  const { owner, record } = JSON.parse(text) as Content
  if (
    owner !== sampleNode ||
    record.id !== id ||
    !(record.cpuMillis > 0) ||
    !(record.memoryBytes > 0) ||
    record.endpointToken.length !== 64
  )
    throw new Error(`${id} is not what was written`)
  return record
}

const textOf = (path: string): string => {
  const file = Files.openSync(path, readsOne)
  const found = Files.fstatSync(file)
  if (!found.isFile() || (found.mode & 0o077) !== 0 || found.size > bytesMax) throw new Error(path)
  const bytes = Buffer.allocUnsafe(found.size)
  Files.readSync(file, bytes, 0, found.size, 0)
  Files.closeSync(file)
  return bytes.toString("utf8")
}

/** The loop of system calls that nobody can save, over the product's own files. */
export const bareLoop: Reader = (place) => {
  const records = Path.join(place, "records")
  const read: Array<Content["record"]> = []
  for (const name of Files.readdirSync(records)) {
    if (name.startsWith("sb-")) read.push(checked(textOf(`${records}/${name}`), name.slice(0, -5)))
  }
  return read.length
}

const sqlitePath = (place: string): string => Path.join(place, "records.sqlite")

export const sqliteScan: Reader = (place) => {
  const database = new DatabaseSync(sqlitePath(place))
  const read: Array<Content["record"]> = []
  for (const row of database.prepare("select id, body from records").iterate()) {
    read.push(checked(String(row["body"]), String(row["id"])))
  }
  database.close()
  return read.length
}

/** The id is the key's place: lmdb's own keys are ordered like the files' names. */
export const lmdbRange: Reader = (place) => {
  const database = openLmdb(place)
  const read: Array<Content["record"]> = []
  for (const { key, value } of database.getRange()) read.push(checked(value, idOf(key)))
  void database.close()
  return read.length
}

const templateId = JSON.parse(recordTemplate()).record.id as string
const suffixLength = 12

/** The id of the sample record at an index. */
export const idOf = (index: number): string =>
  templateId.slice(0, -suffixLength) + String(index).padStart(suffixLength, "0")

/** The text of the file of the sample record at an index. */
export const textAt = (index: number): string =>
  recordTemplate()
    .replace(numberMark, String(index).padStart(numberMark.length, "0"))
    .replace(templateId, idOf(index))

/** Puts as many records into a database of each kind at the place. */
export const fillPeers = async (place: string, records: number): Promise<void> => {
  Files.mkdirSync(place, { recursive: true, mode: 0o700 })
  const sqlite = new DatabaseSync(sqlitePath(place))
  sqlite.exec("pragma journal_mode = wal; pragma synchronous = full")
  sqlite.exec("create table records (id text primary key, body text not null) without rowid; begin")
  const insert = sqlite.prepare("insert into records values (?, ?)")
  for (let index = 0; index < records; index++) insert.run(idOf(index), textAt(index))
  sqlite.exec("commit")
  sqlite.close()
  const lmdb = openLmdb(place)
  await lmdb.transaction(() => {
    for (let index = 0; index < records; index++) void lmdb.put(index, textAt(index))
  })
  await lmdb.close()
}
