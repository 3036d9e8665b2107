/**
 * Other ways to keep a record durable, with as many writers as the load has: Effect's own FileSystem behind a lock, and
 * lmdb, which flushes all that was put meanwhile at once. Neither checks a record or a budget.
 */
import { layer as fileSystem } from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import { FileSystem } from "effect/FileSystem"
import * as Semaphore from "effect/Semaphore"
import { open, type RootDatabase } from "lmdb"
import * as Path from "node:path"
import { loopEffects, loopPromises } from "./closedLoop.ts"
import type { Contender } from "./definition.ts"
import { layRecords, placed, recordsWritten, textsOf } from "./recordFloors.ts"
import { numberMark, recordTemplate, writtenNumber } from "./sampleRecord.ts"

/** The same steps as the registry's, composed of the platform's file handles; one writer at a time. */
export const effectFiles = (place: string): Contender =>
  placed(
    "Effect FileSystem, a lock",
    (directory, load) =>
      Effect.gen(function* () {
        const files = yield* FileSystem
        layRecords(directory)
        const lock = Semaphore.makeUnsafe(1)
        const folder = yield* files.open(directory, { flag: "r" })
        const template = recordTemplate()
        let write = 0
        const put = Effect.fnUntraced(function* (number: number) {
          const temporary = Path.join(directory, `.record-${number}.tmp`)
          const text = new TextEncoder().encode(template.replace(numberMark, writtenNumber(number)))
          const file = yield* files.open(temporary, { flag: "wx", mode: 0o600 })
          yield* file.writeAll(text)
          yield* file.sync
          yield* files.rename(temporary, Path.join(directory, `record-${number % recordsWritten}.json`))
        }, Effect.scoped)
        return yield* loopEffects(load, () => {
          const number = write++
          return lock.withPermits(1)(Effect.andThen(put(number), folder.sync))
        })
      }).pipe(Effect.scoped, Effect.provide(fileSystem)),
    textsOf,
    place
  )

/** The default answers a put before its flush; here every put is durable when it is answered. */
export const openLmdb = (path: string): RootDatabase<string, number> =>
  open<string, number>({ path: Path.join(path, "records.lmdb"), encoding: "string", overlappingSync: false })

export const lmdbFlushed = (place: string): Contender =>
  placed(
    "lmdb, flushed",
    (directory, load) =>
      Effect.acquireUseRelease(
        Effect.sync(() => openLmdb(directory)),
        (database) => {
          const template = recordTemplate()
          let write = 0
          return loopPromises(load, async () => {
            const number = write++
            await database.put(number % recordsWritten, template.replace(numberMark, writtenNumber(number)))
            await database.flushed
          })
        },
        (database) => Effect.promise(() => database.close())
      ),
    (directory) => {
      const database = openLmdb(directory)
      const texts = Array.from(database.getRange(), ({ value }) => value)
      void database.close()
      return texts
    },
    place
  )
