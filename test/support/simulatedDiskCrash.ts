/**
 * Every state that a power failure may leave of a simulated disk: each pending change of each directory lost or kept
 * by itself, a renamed file under its new name, its old one, or both, and each file that was not synced as it was,
 * empty, torn, zeroed or whole. Equal states are made once.
 */
import {
  applyEntry,
  type DirectoryNode,
  type FileNode,
  makeDirectoryNode,
  makeFile,
  makeSimulatedDisk,
  type PendingEntry,
  type SimulatedDisk,
  type SimulatedNode
} from "./simulatedDisk.ts"

/** A state of a disk at rest. Two states with one key are the same, whatever the temporary files are called. */
export type DiskImage =
  | { readonly kind: "file"; readonly key: string; readonly content: Buffer; readonly mode: number }
  | {
      readonly kind: "directory"
      readonly key: string
      readonly entries: ReadonlyMap<string, DiskImage>
      readonly mode: number
    }

/** More states of one moment than this are a test that asks too much of the enumeration. */
export const statesOfMomentMax = 20_000

const numbers = new WeakMap<object, number>()
let nextNumber = 0
const numberOf = (thing: object): number => {
  const known = numbers.get(thing)
  if (known !== undefined) return known
  nextNumber += 1
  numbers.set(thing, nextNumber)
  return nextNumber
}

const contentKeys = new Map<string, string>()
const keysOfBuffers = new WeakMap<Buffer, string>()
const keyOfContent = (content: Buffer): string => {
  const known = keysOfBuffers.get(content)
  if (known !== undefined) return known
  const text = content.toString("latin1")
  const key = contentKeys.get(text) ?? `#${contentKeys.size}`
  contentKeys.set(text, key)
  keysOfBuffers.set(content, key)
  return key
}

const imageOfFile = (content: Buffer, mode: number): DiskImage => ({
  kind: "file",
  key: `${keyOfContent(content)} ${mode.toString(8)}`,
  content,
  mode
})

/** Names of temporary files carry an id that means nothing. */
const namePattern = /^(\.[a-z.]+-(?:retired-)?)[0-9a-f-]{36}$/

const imageOfDirectory = (entries: ReadonlyMap<string, DiskImage>, mode: number): DiskImage => ({
  kind: "directory",
  key: `{${[...entries]
    .map(([name, image]) => `${name.replace(namePattern, "$1*")}=${image.key}`)
    .toSorted()
    .join()}}${mode.toString(8)}`,
  entries,
  mode
})

const filesOf = (node: FileNode): ReadonlyArray<DiskImage> => {
  const { content, durable, mode } = node
  if (content === durable) return [imageOfFile(content, mode)]
  const torn = content.subarray(0, Math.floor(content.length / 2))
  const contents = [durable, content, Buffer.alloc(0), torn, Buffer.alloc(content.length)]
  const distinct = contents.filter((one, at) => contents.findIndex((other) => other.equals(one)) === at)
  return distinct.map((each) => imageOfFile(each, mode))
}

const outcomesOf = (change: PendingEntry): ReadonlyArray<ReadonlyArray<PendingEntry>> => {
  if (change.change !== "rename" || change.node.kind === "directory") return [[], [change]]
  return [[], [change], [{ change: "link", name: change.to, node: change.node }]]
}

type Entries = ReadonlyMap<string, SimulatedNode>

const keyOfEntries = (entries: Entries): string =>
  [...entries]
    .map(([name, node]) => `${name}=${numberOf(node)}`)
    .toSorted()
    .join()

/** What may be left of the entries of a directory. */
const entriesOf = (directory: DirectoryNode): ReadonlyArray<Entries> => {
  let states = new Map<string, Entries>([["", directory.durable]])
  for (const change of directory.pending) {
    const next = new Map<string, Entries>()
    for (const entries of states.values()) {
      for (const outcome of outcomesOf(change)) {
        const changed = new Map(entries)
        for (const each of outcome) applyEntry(changed, each)
        next.set(keyOfEntries(changed), changed)
      }
    }
    states = next
    if (states.size > statesOfMomentMax) throw new Error("too many changes wait for one sync")
  }
  return [...states.values()]
}

/** Every choice of one state for each node. */
const choices = (
  nodes: ReadonlyArray<SimulatedNode>
): ReadonlyArray<ReadonlyMap<SimulatedNode, DiskImage>> => {
  let chosen: Array<ReadonlyMap<SimulatedNode, DiskImage>> = [new Map()]
  for (const node of nodes) {
    const images = imagesOf(node)
    chosen = chosen.flatMap((so) => images.map((image) => new Map(so).set(node, image)))
    if (chosen.length > statesOfMomentMax) throw new Error("too many files wait for their sync")
  }
  return chosen
}

const imagesOf = (node: SimulatedNode): ReadonlyArray<DiskImage> => {
  if (node.kind === "file") return filesOf(node)
  const images = new Map<string, DiskImage>()
  for (const entries of entriesOf(node)) {
    for (const chosen of choices([...new Set(entries.values())])) {
      const image = imageOfDirectory(
        new Map([...entries].map(([name, each]) => [name, chosen.get(each)!])),
        node.mode
      )
      images.set(image.key, image)
    }
  }
  return [...images.values()]
}

/** The distinct states that a power failure may leave of the disk as it is now. */
export const crashImagesOf = (disk: SimulatedDisk): ReadonlyArray<DiskImage> => imagesOf(disk.root)

/** The state of the disk as a process sees it, synced or not. */
export const visibleImageOf = (node: SimulatedNode): DiskImage =>
  node.kind === "file"
    ? imageOfFile(node.content, node.mode)
    : imageOfDirectory(
        new Map([...node.entries].map(([name, each]) => [name, visibleImageOf(each)])),
        node.mode
      )

const nodeOf = (image: DiskImage): SimulatedNode =>
  image.kind === "file"
    ? makeFile(image.content, image.mode)
    : makeDirectoryNode(new Map([...image.entries].map(([name, each]) => [name, nodeOf(each)])), image.mode)

/** A disk that has come up with this state. */
export const diskOf = (image: DiskImage): SimulatedDisk => {
  const root = nodeOf(image)
  if (root.kind !== "directory") throw new Error("the state directory is a directory")
  return makeSimulatedDisk(root)
}

/** Every file and directory of a state, with the text of the files; for a report of what went wrong. */
export const describeImage = (image: DiskImage, path = "."): ReadonlyArray<string> =>
  image.kind === "file"
    ? [`${path}: ${JSON.stringify(image.content.toString("latin1").slice(0, 60))}`]
    : [
        `${path}/`,
        ...[...image.entries].flatMap(([name, each]) =>
          describeImage(each, path === "." ? name : `${path}/${name}`)
        )
      ]
