/**
 * The calls to the system of somebody who only looks: whatever would change a file, a directory or its times is refused
 * before it reaches the system, and a file does not even note that it was read.
 */
import * as Files from "node:fs"
import { carryOutHere, type Disk } from "./diskSteps.ts"
import type { FileCalls } from "./durable.ts"
import { PrivateFileRefused } from "./privateFiles.ts"

const { O_CREAT, O_NOATIME, O_RDWR, O_TRUNC, O_WRONLY } = Files.constants
const changingFlags = O_CREAT | O_RDWR | O_TRUNC | O_WRONLY

/** Throws, which the adapters take for a failure of their own call. */
const refuse = (): never => {
  throw new PrivateFileRefused("this is a look, and it changes nothing")
}

/** Opens for reading only. Only the owner may keep its reading out of a file's times; others are refused anyway. */
const openToRead = (path: string, flags: number): number => {
  if ((flags & changingFlags) !== 0) return refuse()
  try {
    return Files.openSync(path, flags | O_NOATIME)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") throw error
    return Files.openSync(path, flags)
  }
}

export const readOnlyCalls: FileCalls = {
  ...Files,
  openSync: openToRead,
  mkdirSync: refuse,
  chmodSync: refuse,
  fchmodSync: refuse,
  rmdirSync: refuse,
  writeSync: refuse,
  fsyncSync: refuse,
  renameSync: refuse,
  unlinkSync: refuse
}

/** A disk that is only looked at. */
export const readOnlyDisk: Disk = { calls: readOnlyCalls, carryOut: carryOutHere(readOnlyCalls) }
