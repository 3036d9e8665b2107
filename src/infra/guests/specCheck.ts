/**
 * The parts of a specification that only this machine can judge: whether image and disk are there and can be shown to
 * the guest, and whether the shell that carries environment and arguments can carry them. Reads only.
 */
import * as Files from "node:fs"
import * as Path from "node:path"
import type { GuestSpec } from "../../domain/guests/GuestSpec.ts"
import { isEnvironmentName } from "./agentScript.ts"
import { isDiskOfOurs } from "./folders.ts"
import type { Ground } from "./ground.ts"

export interface SpecDoubt {
  readonly field: string
  readonly why: string
}

const doubt = (field: string, why: string): SpecDoubt => ({ field, why })

const statOf = (path: string): Files.Stats | undefined => {
  try {
    return Files.lstatSync(path, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

const othersMayEnter = 0o001
const othersMayRead = 0o004

/** Whether an unprivileged user reaches the directory and may list it. */
const isOpenToOthers = (path: string): boolean => {
  const above = path.split(Path.sep).map((_, at, parts) => parts.slice(0, at + 1).join(Path.sep) || Path.sep)
  return (
    above.every((each) => ((statOf(each)?.mode ?? 0) & othersMayEnter) !== 0) &&
    ((statOf(path)?.mode ?? 0) & othersMayRead) !== 0
  )
}

const checkImage = (ground: Ground, image: string): SpecDoubt | null => {
  if (image === "host") return null
  if (!Path.isAbsolute(image) || Path.normalize(image) !== image) {
    return doubt("image", 'it is neither "host" nor a plain absolute path')
  }
  if (statOf(image)?.isDirectory() !== true)
    return doubt("image", "no directory is there: unpack a root file system")
  if (!Files.existsSync(Path.join(image, "bin/sh")) && statOf(Path.join(image, "bin/sh")) === undefined) {
    return doubt("image", "it has no /bin/sh, which the guest's agent needs")
  }
  return ground.userIds.isPrivate && !isOpenToOthers(image)
    ? doubt("image", "unprivileged users cannot read it: guests run as such")
    : null
}

const isReal = (path: string): boolean => {
  try {
    return Files.realpathSync(path) === path
  } catch {
    return false
  }
}

const isBelow = (path: string, directory: string): boolean =>
  path === directory || path.startsWith(directory === Path.sep ? directory : `${directory}${Path.sep}`)

/** A directory of the host's own: no link leads to it, and it has nothing to do with what the daemon keeps. */
const isHostDirectory = ({ stateDirectory }: Ground, disk: string): boolean =>
  isReal(disk) && !isBelow(disk, stateDirectory) && !isBelow(stateDirectory, disk)

const checkDisk = (ground: Ground, disk: string | null): SpecDoubt | null => {
  if (disk === null) return null
  if (!Path.isAbsolute(disk) || statOf(disk)?.isDirectory() !== true) {
    return doubt("disk", "no directory is there: make the disk before the guest")
  }
  const isOwn = isDiskOfOurs(ground.stateDirectory, disk)
  if (!ground.userIds.isPrivate && isOwn) return null
  const isPlain = isOwn ? isReal(Path.dirname(disk)) && isReal(disk) : isHostDirectory(ground, disk)
  return isPlain
    ? null
    : doubt(
        "disk",
        "it lies below the state directory's disks/ or apart from that directory, with no link on the way"
      )
}

const checkWords = (spec: GuestSpec): SpecDoubt | null => {
  const has = (words: ReadonlyArray<string>) => words.some((word) => word.includes("\0"))
  if (has(spec.argv)) return doubt("argv", "a word holds a NUL byte")
  if (has(Object.values(spec.environment))) return doubt("environment", "a value holds a NUL byte")
  return Object.keys(spec.environment).every(isEnvironmentName)
    ? null
    : doubt("environment", "a name is not made of letters, digits and underscores, no digit first")
}

const checkLimits = (spec: GuestSpec): SpecDoubt | null => {
  for (const field of ["cpuMillis", "memoryBytes", "processesMax"] as const) {
    if (spec[field] <= 0) return doubt(field, "it is not positive")
  }
  return null
}

/** The first doubt about the specification, or null. */
export const checkSpec = (ground: Ground, spec: GuestSpec): SpecDoubt | null =>
  checkImage(ground, spec.image) ?? checkDisk(ground, spec.disk) ?? checkWords(spec) ?? checkLimits(spec)
