/**
 * What must be seen of a commit that went wrong at its commit point: `before` the call did nothing and failed, `lost
 * answer` it was done and failed, `after` it was done and the sync behind it failed, `crash` the process died there.
 * Source: RG-COM-05, RG-MIG-05, BX-04.
 */
export type Commit = "create" | "replace" | "remove" | "activation"
type Point = "before" | "lost answer" | "after" | "crash"

/** What is seen of a commit point that went wrong: the answer, a restart, a power failure, and the same asked again. */
export interface Row {
  readonly commit: Commit
  readonly point: Point
  readonly answer: string
  readonly restart: "before" | "after"
  readonly power: ReadonlyArray<string>
  /** What the next daemon answers to the same request. */
  readonly repeated: string
}

const row = (
  [commit, point]: readonly [Commit, Point],
  answer: string,
  restart: Row["restart"],
  power: string,
  repeated: string
): Row => ({ commit, point, answer, restart, power: power.split(" "), repeated })

export const uncertainTable: ReadonlyArray<Row> = [
  row(["create", "before"], "StorageFailed", "before", "before", "done"),
  row(["create", "lost answer"], "StorageFailed", "after", "after before", "SandboxIdTaken"),
  row(["create", "after"], "StorageFailed", "after", "after before", "SandboxIdTaken"),
  row(["create", "crash"], "none", "after", "after before", "SandboxIdTaken"),
  row(["replace", "before"], "StorageFailed", "before", "before", "done"),
  row(["replace", "lost answer"], "StorageFailed", "after", "after before", "done"),
  row(["replace", "after"], "StorageFailed", "after", "after before", "done"),
  row(["replace", "crash"], "none", "after", "after before", "done"),
  row(["remove", "before"], "StorageFailed", "before", "before", "done"),
  row(["remove", "lost answer"], "StorageFailed", "after", "after before", "SandboxNotFound"),
  row(["remove", "after"], "StorageFailed", "after", "after before", "SandboxNotFound"),
  row(["remove", "crash"], "none", "after", "after before", "SandboxNotFound"),
  row(["activation", "before"], "RegistryOpenRefused", "before", "before", "done"),
  row(["activation", "lost answer"], "RegistryOpenRefused", "after", "after before", "done"),
  row(["activation", "after"], "RegistryOpenRefused", "after", "after before", "done"),
  row(["activation", "crash"], "none", "after", "after before", "done")
]
