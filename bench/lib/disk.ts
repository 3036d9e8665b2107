/**
 * Where benchmarks write: a directory of their own on a real disk, removed with the scope. A file system in memory is
 * refused, since a flush costs nothing there and every figure about durability would be a lie.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { execFileSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { median } from "./statistics.ts"

/** File system types of Linux that live in memory: tmpfs and ramfs. */
const inMemory = new Set([0x01021994, 0x858458f6])

/** HOLDFAST_BENCH_DIRECTORY names another place than /var/tmp. */
const place = (): string => process.env["HOLDFAST_BENCH_DIRECTORY"] ?? "/var/tmp"

/**
 * Asks the file system to lay each directory made here on a part of the disk of its own. ext4 looks at every file that
 * was freed there in the last minutes before it makes a new one: thousands of writes of another contender, or of its own
 * last run, would make a write three times as long. Where it cannot be asked, the figures are only less steady.
 */
const spreadOver = (directory: string): void => {
  try {
    execFileSync("chattr", ["+T", directory], { stdio: "ignore" })
  } catch {
    // Another file system, or no such tool.
  }
}

/** A new private directory for one run, with nothing freed beside it. Goes with the directory of the suite. */
export const placeOfRun = (place: string): string => Files.mkdtempSync(`${place}-`)

/** Makes a directory on the disk for as long as the scope is open. Refused: a place in memory. */
export const diskDirectory: Effect.Effect<string, Error, Scope.Scope> = Effect.acquireRelease(
  Effect.try({
    try: () => {
      if (inMemory.has(Files.statfsSync(place()).type))
        throw new Error(`${place()} is in memory: name a directory on a disk in HOLDFAST_BENCH_DIRECTORY`)
      const directory = Files.mkdtempSync(Path.join(place(), "hf-bench-"))
      // The database's user has to pass through it.
      Files.chmodSync(directory, 0o711)
      spreadOver(directory)
      return directory
    },
    catch: (failure) => (failure instanceof Error ? failure : new Error(String(failure)))
  }),
  (directory) => Effect.sync(() => Files.rmSync(directory, { recursive: true, force: true, maxRetries: 3 }))
)

/** Milliseconds that one flush of a few changed bytes takes in the directory: the median of fifty. */
export const flushMillis = (directory: string): number => {
  const path = Path.join(directory, "flush")
  const file = Files.openSync(path, "w")
  const times = Array.from({ length: 50 }, (_, at) => {
    Files.writeSync(file, `${at}`, 0)
    const begun = performance.now()
    Files.fdatasyncSync(file)
    return performance.now() - begun
  })
  Files.closeSync(file)
  Files.rmSync(path)
  return median(times)
}
