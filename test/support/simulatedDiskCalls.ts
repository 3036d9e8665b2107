/**
 * The system calls of the registry's adapter, on a simulated disk. A process on the disk is a life: its descriptors and
 * its answers end with it, what it has written stays. The calls that a life waits for are made one at a time, in an
 * order that the test chooses.
 */
import * as Files from "node:fs"
import * as Path from "node:path"
import { type CarryOut, carryOutHere, type Disk } from "../../src/infra/filesystem/diskSteps.ts"
import type { FileCalls } from "../../src/infra/filesystem/durable.ts"
import {
  changeEntry,
  type DirectoryNode,
  makeDirectoryNode,
  makeFile,
  type SimulatedDisk,
  type SimulatedNode,
  simulatedRoot,
  syncNode
} from "./simulatedDisk.ts"

/** One call to the system. `path` is relative to the state directory, a rename's is `from to`. */
export interface SystemCall {
  readonly name: string
  readonly path: string
  /** Whether it changed what is on the disk, or what of it is durable. */
  readonly changes: boolean
  /** Whether it was done, and not refused. */
  isDone: boolean
}

/** What a test decides about the calls of one life. */
export interface LifeOptions {
  /** The error name with which a call fails before it does anything, or null. */
  readonly fault?: (call: SystemCall) => string | null
  /** Looks at a call that has been done and is not answered yet. */
  readonly done?: (call: SystemCall) => void
  /** Makes one of the calls that wait, now or later; without it each is made at once. */
  readonly schedule?: (go: () => void) => void
  /** Puts calls of its own in place of those that it is given. */
  readonly adapt?: (calls: FileCalls) => FileCalls
}

interface Descriptor {
  readonly node: SimulatedNode
  readonly path: string
  position: number
}

const failure = (code: string): Error => Object.assign(new Error(code), { code })

/** A name below a descriptor, as the adapter spells it. */
const belowDescriptor = /^\/proc\/self\/fd\/(\d+)\/(.+)$/

const noDescriptor = (): Error => failure("EBADF")

const ownUser = process.geteuid?.() ?? 0

const statOf = (node: SimulatedNode) => ({
  mode: node.mode | (node.kind === "file" ? Files.constants.S_IFREG : Files.constants.S_IFDIR),
  uid: ownUser,
  size: node.kind === "file" ? node.content.length : 4_096,
  isFile: () => node.kind === "file",
  isDirectory: () => node.kind === "directory"
})

/** A process on the disk. */
export interface Life extends Disk {
  /** Every call that was done, in order. */
  readonly order: Array<SystemCall>
  /** The process is gone: nothing that it asks for is done or answered any more. */
  readonly end: () => void
  readonly isOver: () => boolean
}

/** Starts a process on the disk. */
export const startLife = (disk: SimulatedDisk, options: LifeOptions = {}): Life => {
  const descriptors = new Map<number, Descriptor>()
  const order: Array<SystemCall> = []
  const schedule = options.schedule ?? ((go: () => void) => go())
  let nextDescriptor = 10
  let isOver = false

  const opened = (descriptor: number): Descriptor => {
    const found = descriptors.get(descriptor)
    if (found === undefined) throw noDescriptor()
    return found
  }

  /** The directory that a path lies in, by the descriptor that it begins with. */
  const locate = (path: string) => {
    const held = belowDescriptor.exec(path)
    const base = held === null ? null : opened(Number(held[1]))
    const words = (held === null ? Path.relative(simulatedRoot, path) : held[2]!)
      .split("/")
      .filter((word) => word !== "" && word !== ".")
    let parent: SimulatedNode = base?.node ?? disk.root
    for (const word of words.slice(0, -1)) {
      if (parent.kind !== "directory") throw failure("ENOTDIR")
      const child: SimulatedNode | undefined = parent.entries.get(word)
      if (child === undefined) throw failure("ENOENT")
      parent = child
    }
    if (parent.kind !== "directory") throw failure("ENOTDIR")
    const name = words.at(-1)
    return { parent, name, node: name === undefined ? parent : parent.entries.get(name) }
  }

  const nameOf = (path: string): string => {
    const held = belowDescriptor.exec(path)
    if (held === null) return Path.relative(simulatedRoot, path) || "."
    const directory = descriptors.get(Number(held[1]))?.path ?? "?"
    return held[2] === "." ? directory : directory === "." ? held[2]! : `${directory}/${held[2]}`
  }

  const found = (path: string): SimulatedNode => {
    const { node } = locate(path)
    if (node === undefined) throw failure("ENOENT")
    return node
  }

  const directoryAt = (path: string): DirectoryNode => {
    const node = found(path)
    if (node.kind !== "directory") throw failure("ENOTDIR")
    return node
  }

  /** Does one call, or fails it as the test wants. */
  const call = <A>(name: string, path: string, changes: boolean, run: () => A): A => {
    const made: SystemCall = { name, path, changes, isDone: false }
    if (isOver) throw failure("the process is gone")
    const fault = options.fault?.(made) ?? null
    order.push(made)
    if (fault !== null) throw failure(fault)
    const answer = run()
    made.isDone = true
    options.done?.(made)
    if (isOver) throw failure("the process is gone")
    return answer
  }

  const hold = (node: SimulatedNode, path: string): number => {
    nextDescriptor += 1
    descriptors.set(nextDescriptor, { node, path, position: 0 })
    return nextDescriptor
  }

  const createFile = (path: string, mode: number): number => {
    const { name, node, parent } = locate(path)
    if (node !== undefined || name === undefined) throw failure("EEXIST")
    const made = { ...makeFile(Buffer.alloc(0)), mode }
    changeEntry(parent, { change: "link", name, node: made })
    return hold(made, nameOf(path))
  }

  const writeAt = (descriptor: number, bytes: Buffer): number => {
    const { node } = opened(descriptor)
    if (node.kind !== "file") throw noDescriptor()
    node.content = Buffer.concat([node.content, bytes])
    return bytes.length
  }

  const removeEntry = (path: string, kind: SimulatedNode["kind"]): void => {
    const { name, node, parent } = locate(path)
    if (node === undefined || name === undefined) throw failure("ENOENT")
    if (node.kind !== kind) throw failure(kind === "file" ? "EISDIR" : "ENOTDIR")
    if (node.kind === "directory" && node.entries.size > 0) throw failure("ENOTEMPTY")
    changeEntry(parent, { change: "unlink", name, node })
  }

  const renameEntry = (from: string, to: string): void => {
    const source = locate(from)
    const target = locate(to)
    if (source.node === undefined) throw failure("ENOENT")
    if (source.parent !== target.parent || source.name === undefined || target.name === undefined) {
      throw failure("EXDEV")
    }
    const { node } = source
    if (target.node?.kind === "directory") throw failure("EEXIST")
    changeEntry(source.parent, { change: "rename", from: source.name, to: target.name, node })
  }

  const sound: FileCalls = {
    openSync: (path, flags, mode = 0) =>
      (flags & Files.constants.O_CREAT) === 0
        ? call("open", nameOf(path), false, () => hold(found(path), nameOf(path)))
        : call("open", nameOf(path), true, () => createFile(path, mode)),
    closeSync: (descriptor: number) =>
      call("close", opened(descriptor).path, false, () => void descriptors.delete(descriptor)),
    fstatSync: (descriptor: number) =>
      call("stat", opened(descriptor).path, false, () => statOf(opened(descriptor).node)),
    lstatSync: (path: string) => call("stat", nameOf(path), false, () => statOf(found(path))),
    readSync: (descriptor: number, buffer: Buffer, at: number, length: number, position: number) =>
      call("read", opened(descriptor).path, false, () => {
        const { node } = opened(descriptor)
        if (node.kind !== "file") throw failure("EISDIR")
        return node.content.copy(buffer, at, position, position + length)
      }),
    readdirSync: (path: string) =>
      call("list", nameOf(path), false, () =>
        [...directoryAt(path).entries].map(([name, node]) => ({ name, ...statOf(node) }))
      ),
    mkdirSync: (path: string, { mode }: { readonly mode: number }) =>
      call("mkdir", nameOf(path), true, () => {
        const { name, node, parent } = locate(path)
        if (node !== undefined || name === undefined) throw failure("EEXIST")
        changeEntry(parent, {
          change: "link",
          name,
          node: makeDirectoryNode(new Map(), mode)
        })
      }),
    chmodSync: (path: string, mode: number) =>
      call("chmod", nameOf(path), false, () => void (found(path).mode = mode)),
    rmdirSync: (path: string) => call("rmdir", nameOf(path), true, () => removeEntry(path, "directory")),
    fchmodSync: (descriptor, mode) =>
      call("fchmod", opened(descriptor).path, true, () => void (opened(descriptor).node.mode = mode)),
    writeSync: (descriptor, bytes, at, length) =>
      call("write", opened(descriptor).path, true, () =>
        writeAt(descriptor, bytes.subarray(at, at + length))
      ),
    fsyncSync: (descriptor) =>
      call("fsync", opened(descriptor).path, true, () => syncNode(opened(descriptor).node)),
    renameSync: (from, to) =>
      call("rename", `${nameOf(from)} ${nameOf(to)}`, true, () => renameEntry(from, to)),
    unlinkSync: (path) => call("unlink", nameOf(path), true, () => removeEntry(path, "file"))
  }
  const calls = options.adapt?.(sound) ?? sound
  /** Nobody is left to be answered once the life is over. */
  const whileAlive =
    <A extends ReadonlyArray<unknown>>(run: (...given: A) => void) =>
    (...given: A): void => {
      if (!isOver) run(...given)
    }
  const here = carryOutHere(calls, (go) => schedule(whileAlive(go)))
  const carryOut: CarryOut = (steps, done) => here(steps, whileAlive(done))
  return {
    calls,
    carryOut,
    order,
    end: () => (isOver = true),
    isOver: () => isOver
  }
}
