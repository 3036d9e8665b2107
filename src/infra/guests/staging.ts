/**
 * The mount namespace in which a root daemon shows its guests' directories to their unprivileged users. The state
 * directory is 0700 and of root, so a guest's user could not reach its own files; a holder process keeps a namespace
 * in which runtime/ and disks/ are mounted at a place open to all. Launches enter it and drop to the guest's user in
 * one step. The holder dies with the daemon; guests have namespaces of their own and live on.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import { disksDirectory, runtimeDirectory } from "./folders.ts"
import { programEnvironment } from "./programs.ts"

/** The machine does not let the daemon make the namespace. */
export class StagingFailed extends Schema.TaggedError<StagingFailed>()("StagingFailed", {
  why: Schema.String
}) {
  override get message(): string {
    return this.why
  }
}

export interface Staging {
  /**
   * Words before a program that is to run as this user, in the staging namespace; with a pid also in the network of
   * that process, which only root can enter.
   */
  readonly enter: (userId: number, networkOf?: number) => ReadonlyArray<string>
  /** Where a path below runtime/ or disks/ is seen there; any other path is the same. */
  readonly seenAt: (path: string) => string
}

/** A daemon that is not root runs guests as itself and reaches its own directories. */
export const noStaging: Staging = { enter: () => [], seenAt: (path) => path }

const script = `mount -t tmpfs -o mode=711,size=64k holdfast "$1" && mkdir "$1/runtime" "$1/disks" &&
mount --bind "$2" "$1/runtime" && mount --bind "$3" "$1/disks" && echo ready && exec sleep infinity`

/** Directories of every machine that a guest's root is not made of. */
const places = ["/mnt", "/media", "/srv", "/opt"]

const isBelow = (path: string, directory: string): boolean => {
  const relative = Path.relative(directory, path)
  return relative === "" || (!relative.startsWith("..") && !Path.isAbsolute(relative))
}

const choosePlace = (stateDirectory: string): string | undefined =>
  places.find((place) => Files.existsSync(place) && !isBelow(Files.realpathSync(stateDirectory), place))

const startHolder = (place: string, stateDirectory: string): Effect.Effect<ChildProcess, StagingFailed> =>
  Effect.callback<ChildProcess, StagingFailed>((resume) => {
    const holder = spawn(
      "setpriv",
      [
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--propagation",
        "slave",
        "/bin/sh",
        "-c",
        script,
        "holdfast-staging",
        place,
        runtimeDirectory(stateDirectory),
        disksDirectory(stateDirectory)
      ],
      { stdio: ["ignore", "pipe", "ignore"], env: programEnvironment, cwd: "/" }
    )
    const failed = (why: string) => resume(new StagingFailed({ why }))
    holder.once("error", () => failed("setpriv of util-linux is missing: install util-linux"))
    holder.once("exit", () => failed("this user may not make a mount namespace here"))
    holder.stdout.once("data", () => resume(Effect.succeed(holder)))
    return Effect.sync(() => {
      holder.kill("SIGKILL")
    })
  })

/** Makes the namespace for as long as the scope is open. runtime/ and disks/ must be there. */
export const makeStaging = (stateDirectory: string): Effect.Effect<Staging, StagingFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const place = choosePlace(stateDirectory)
    if (place === undefined) {
      return yield* new StagingFailed({
        why: `none of ${places.join(", ")} can be used to show guests their files`
      })
    }
    const holder = yield* Effect.acquireRelease(
      startHolder(place, stateDirectory).pipe(
        Effect.timeoutOrElse({
          duration: Bounds.supervisorProbeMillisMax,
          orElse: () => Effect.fail(new StagingFailed({ why: "the mount namespace was not ready in time" }))
        })
      ),
      (started) =>
        Effect.sync(() => {
          started.stdout?.destroy()
          started.kill("SIGKILL")
        })
    )
    holder.unref()
    const shown = [
      [runtimeDirectory(stateDirectory), Path.join(place, "runtime")],
      [disksDirectory(stateDirectory), Path.join(place, "disks")]
    ] as const
    return {
      enter: (userId, networkOf) => {
        const user = String(userId)
        const network = networkOf === undefined ? [] : [`--net=/proc/${networkOf}/ns/net`]
        return ["nsenter", `--mount=/proc/${holder.pid}/ns/mnt`, ...network, "-G", user, "-S", user, "--"]
      },
      seenAt: (path) => {
        const found = shown.find(([directory]) => isBelow(path, directory))
        return found === undefined ? path : Path.join(found[1], Path.relative(found[0], path))
      }
    }
  })
