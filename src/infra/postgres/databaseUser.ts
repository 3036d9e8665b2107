/**
 * Under whom the embedded database runs. PostgreSQL refuses to run as root, so root hands it to `postgres` or
 * `nobody`; anybody else runs it himself. Also tells which directory keeps that user from reaching a path.
 */
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import { ClusterRefused } from "./clusterErrors.ts"

export interface DatabaseUser {
  readonly userId: number
  readonly groupId: number
}

/** The user to drop to, or null where this process already is an unprivileged one. Refused: no such user exists. */
export const databaseUser = (home: string): Effect.Effect<DatabaseUser | null, ClusterRefused> =>
  Effect.suspend(() => {
    if (process.getuid?.() !== 0) return Effect.succeed(null)
    const users = Files.readFileSync("/etc/passwd", "utf8")
      .split("\n")
      .map((line) => line.split(":"))
    const found = users.find((user) => user[0] === "postgres") ?? users.find((user) => user[0] === "nobody")
    return found === undefined
      ? Effect.fail(new ClusterRefused({ code: "cluster_user_missing", path: home }))
      : Effect.succeed({ userId: Number(found[2]), groupId: Number(found[3]) })
  })

/** Whether permission bits let the user pass through a directory. */
export const mayTraverse = (
  directory: { readonly mode: number; readonly uid: number; readonly gid: number },
  user: DatabaseUser
): boolean => {
  if (directory.uid === user.userId) return (directory.mode & 0o100) !== 0
  if (directory.gid === user.groupId) return (directory.mode & 0o010) !== 0
  return (directory.mode & 0o001) !== 0
}

/** The outermost existing directory above `path` that the user cannot pass through, or null. */
export const obstacleAbove = (path: string, user: DatabaseUser): string | null => {
  const parents: Array<string> = []
  for (let parent = Path.dirname(path); ; parent = Path.dirname(parent)) {
    parents.unshift(parent)
    if (parent === Path.dirname(parent)) break
  }
  const blocked = parents.find((parent) => {
    const directory = Files.statSync(parent, { throwIfNoEntry: false })
    return directory !== undefined && !mayTraverse(directory, user)
  })
  return blocked ?? null
}
