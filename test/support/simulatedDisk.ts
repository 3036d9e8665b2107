/**
 * A disk in memory that keeps what is written apart from what is synced. simulatedDiskCalls.ts puts it behind the
 * system calls of the registry's adapter; what a power failure may leave of it is enumerated by simulatedDiskCrash.ts.
 * Its rules:
 *
 *     content of a file         durable behind fsync of the file; before that it may be lost, torn or zeroed
 *     entries of a directory    durable behind fsync of the directory; each may be lost or kept by itself
 *     rename                    atomic, but it carries no content: a file that was not synced may come out empty
 */
/** Where the simulated state directory is. */
export const simulatedRoot = "/state"

export interface FileNode {
  readonly kind: "file"
  mode: number
  content: Buffer
  durable: Buffer
}

/** A change of a directory that is not durable yet. */
export type PendingEntry =
  | { readonly change: "link"; readonly name: string; readonly node: SimulatedNode }
  | { readonly change: "unlink"; readonly name: string; readonly node: SimulatedNode }
  | { readonly change: "rename"; readonly from: string; readonly to: string; readonly node: SimulatedNode }

export interface DirectoryNode {
  readonly kind: "directory"
  mode: number
  readonly entries: Map<string, SimulatedNode>
  durable: ReadonlyMap<string, SimulatedNode>
  pending: Array<PendingEntry>
}

export type SimulatedNode = FileNode | DirectoryNode

export interface SimulatedDisk {
  readonly root: DirectoryNode
}

export const makeFile = (content: Buffer, mode = 0o600): FileNode => ({
  kind: "file",
  mode,
  content,
  durable: content
})

export const makeDirectoryNode = (
  entries: ReadonlyMap<string, SimulatedNode> = new Map(),
  mode = 0o700
): DirectoryNode => ({
  kind: "directory",
  mode,
  entries: new Map(entries),
  durable: new Map(entries),
  pending: []
})

export const makeSimulatedDisk = (root: DirectoryNode = makeDirectoryNode()): SimulatedDisk => ({ root })

/** Changes one entry now, and remembers that the change is not durable. */
export const changeEntry = (directory: DirectoryNode, change: PendingEntry): void => {
  applyEntry(directory.entries, change)
  directory.pending.push(change)
}

/** What a change makes of the entries of a directory; one of a name that meanwhile is another's does nothing. */
export const applyEntry = (entries: Map<string, SimulatedNode>, change: PendingEntry): void => {
  if (change.change === "link") entries.set(change.name, change.node)
  if (change.change === "unlink" && entries.get(change.name) === change.node) entries.delete(change.name)
  if (change.change === "rename") {
    if (entries.get(change.from) === change.node) entries.delete(change.from)
    entries.set(change.to, change.node)
  }
}

/** Makes content or entries of the node durable, and nothing else. */
export const syncNode = (node: SimulatedNode): void => {
  if (node.kind === "file") {
    node.durable = node.content
  } else {
    node.durable = new Map(node.entries)
    node.pending = []
  }
}
