/**
 * What strace has seen of a process, as the changes that it made below one directory, in the words of the simulated
 * disk: names of temporary files without their ids, descriptors by the path that they were opened with.
 */
import * as Path from "node:path"

/** The calls that change a disk, or what of it is durable. */
export const watchedCalls = [
  "openat",
  "write",
  "pwrite64",
  "writev",
  "fsync",
  "fdatasync",
  "rename",
  "renameat",
  "renameat2",
  "unlink",
  "unlinkat",
  "mkdir",
  "mkdirat",
  "rmdir",
  "chmod",
  "fchmod",
  "fchmodat"
]

/** A path without what is different in each run. */
export const withoutIds = (path: string): string =>
  path
    .replaceAll(
      /(\.record|\.records|\.records-retired|\.sandboxes\.json|\.owner\.json)-[0-9a-f-]{36}/g,
      "$1-*"
    )
    .replaceAll(/\.tombstone\.json\.[0-9a-f]+/g, ".tombstone.json.*")

/** Joins what strace has split where another thread came in between. */
const whole = (trace: string): ReadonlyArray<string> => {
  const begun = new Map<string, string>()
  const lines: Array<string> = []
  for (const line of trace.split("\n")) {
    const [, thread, text] = /^(\d+)\s+(.*)$/.exec(line) ?? []
    if (thread === undefined || text === undefined) continue
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(text)
    if (text.endsWith("<unfinished ...>")) begun.set(thread, text.slice(0, -"<unfinished ...>".length))
    else lines.push(resumed === null ? text : `${begun.get(thread) ?? ""}${resumed[1]}`)
  }
  return lines
}

/** The changes below the directory, in their order, each as `name path`. */
export const changesIn = (trace: string, directory: string): ReadonlyArray<string> => {
  const opened = new Map<string, string>()
  const relative = (path: string): string | null => {
    const held = /^\/proc\/self\/fd\/(\d+)\/(.+)$/.exec(path)
    const absolute = held === null ? path : Path.join(opened.get(held[1]!) ?? "/nowhere", held[2]!)
    const below = Path.relative(directory, absolute)
    return below.startsWith("..") ? null : withoutIds(below === "" ? "." : below)
  }
  const changes: Array<string> = []
  for (const line of whole(trace)) {
    const [, name, given, answer] = /^(\w+)\((.*)\)\s+= (.*)$/.exec(line) ?? []
    if (name === undefined || given === undefined || answer === undefined || answer.startsWith("-")) continue
    const paths = [...given.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, path]) => path!)
    const ofDescriptor = /^\d+<([^>]*)>/.exec(given)?.[1]
    if (name === "openat") {
      const [, descriptor, path] = /^(\d+)<([^>]*)>/.exec(answer) ?? []
      if (descriptor !== undefined && path !== undefined) opened.set(descriptor, path)
      if (!given.includes("O_CREAT")) continue
    }
    const usesDescriptor = /^(write|writev|pwrite64|fsync|fdatasync|fchmod)$/.test(name)
    const named = (usesDescriptor ? [ofDescriptor ?? "/"] : paths).map(relative)
    if (named.length === 0 || named.some((path) => path === null)) continue
    const word =
      name === "openat"
        ? "open"
        : name.replace(/^(p|f(?=data))?(write|rename|unlink|mkdir)(at2?|v|64)$/, "$2")
    changes.push(`${word} ${named.join(" ")}`)
  }
  return changes
}
