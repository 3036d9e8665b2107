/**
 * Bridges from a guest's ports to UNIX sockets of the host. A bridge is socat: the host's files, the guest's network,
 * the guest's user, and the guest's cgroups, so that it is charged to the guest and ends with it. Nothing about a bridge
 * is remembered. Whoever asks for a port looks anew who holds the socket, by what the kernel tells about the holder,
 * and asks it to prove that it was given the sandbox's token. Source: RG-RUN-01, RG-RUN-04; docs/decisions.
 */
import * as Effect from "effect/Effect"
import { createHash, randomBytes, timingSafeEqual } from "node:crypto"
import * as Files from "node:fs"
import { connect } from "node:net"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import { GuestCallUnsupported, type GuestIdentity } from "../../domain/guests/GuestSupervisor.ts"
import { ensureDirectory } from "../filesystem/privateFiles.ts"
import { membersOf } from "./cgroups.ts"
import type { SandboxFolder } from "./folders.ts"
import { attempt, folderIn, type Ground, guestFailure, ownerOf } from "./ground.ts"
import { observeProcess, readIfThere, signalIfAlive } from "./kernel.ts"
import { writeGuestFile } from "./guestFile.ts"
import { joinScript } from "./launcher.ts"
import { waitUntil } from "./waiting.ts"
import { findWitnesses, launchMark } from "./witnesses.ts"

const controlName = "control.sock"
const tokenName = "token"
const answerName = "answer"
const portName = (port: number): string => `${port}.sock`

/** What a bridge says to whoever asks for a proof: it knows the token, and does not tell it. */
const answerScript = `read -r asked && read -r token <${tokenName} && printf '%s %s' "$token" "$asked" | sha256sum\n`

const proofOf = (token: string, asked: string): string =>
  createHash("sha256").update(`${token} ${asked}`).digest("hex")

/** Runs its words in a directory. Names of sockets are then short, and no sign of a path means anything to socat. */
const inDirectory = 'cd -- "$1" && shift && exec "$@"'

const listening = 0x10000

/** Inodes of the sockets that listen by this name in the network of the process. */
const listenersNamed = (pid: number, name: string): ReadonlySet<string> =>
  new Set(
    (readIfThere(`/proc/${pid}/net/unix`) ?? "").split("\n").flatMap((line) => {
      const [, , , flags, , , inode, ...path] = line.trim().split(/\s+/)
      return path.join(" ") === name && (Number.parseInt(flags ?? "0", 16) & listening) !== 0
        ? [`${inode}`]
        : []
    })
  )

const isSameDirectory = (left: string, right: string): boolean => {
  const [seen, wanted] = [left, right].map((path) =>
    Files.statSync(path, { bigint: true, throwIfNoEntry: false })
  )
  return seen !== undefined && wanted !== undefined && seen.ino === wanted.ino && seen.dev === wanted.dev
}

const holdsSocket = (pid: number, inodes: ReadonlySet<string>): boolean =>
  Files.readdirSync(`/proc/${pid}/fd`).some((descriptor) => {
    const [, inode] = /^socket:\[(\d+)\]$/.exec(Files.readlinkSync(`/proc/${pid}/fd/${descriptor}`)) ?? []
    return inode !== undefined && inodes.has(inode)
  })

const processesOf = (identity: GuestIdentity): ReadonlyArray<number> => {
  const [group] = identity.groups
  return group === undefined ? findWitnesses(identity.sandbox).map(({ pid }) => pid) : membersOf(group.path)
}

/**
 * Bridges of this guest that listen by this name: processes of the guest's groups that stand in the sandbox's ports
 * directory, where none of the guest's own can be, and hold the listening socket.
 */
const holdersOf = (identity: GuestIdentity, folder: SandboxFolder, name: string): ReadonlyArray<number> => {
  const inodes = listenersNamed(identity.init.pid, name)
  if (inodes.size === 0) return []
  return processesOf(identity).filter((pid) => {
    try {
      return isSameDirectory(`/proc/${pid}/cwd`, folder.ports) && holdsSocket(pid, inodes)
    } catch {
      // It has ended meanwhile, or is not for us to look at: no bridge of ours.
      return false
    }
  })
}

/** Whether the socket is there and a bridge of this guest listens by its name. */
const isHeld = (identity: GuestIdentity, folder: SandboxFolder, name: string): boolean =>
  Files.existsSync(Path.join(folder.ports, name)) && holdersOf(identity, folder, name).length > 0

const untilBound = { watch: null, pollMillis: 2, millisMax: Bounds.guestPortMillisMax }

/**
 * Ends what listens by this name; answers whether nothing does any more. A bridge keeps the name of a socket whose
 * file has gone, so one that is to be replaced would pass for its successor until that listens itself.
 */
const endBridges = (identity: GuestIdentity, folder: SandboxFolder, name: string): Effect.Effect<boolean> =>
  waitUntil(() => {
    const holders = holdersOf(identity, folder, name)
    for (const pid of holders) {
      const holder = observeProcess(pid)
      if (holder !== undefined) signalIfAlive(holder, "SIGKILL")
    }
    return holders.length === 0
  }, untilBound)

/** Makes the directory with what a bridge reads. The guest sees none of it: it is not among its mounts. */
const makePlace = (folder: SandboxFolder, token: string, owner: number | null): void => {
  ensureDirectory(folder.ports, 0o700)
  const files = [
    [tokenName, `${token}\n`],
    [answerName, answerScript]
  ] as const
  for (const [name, content] of files) {
    const path = Path.join(folder.ports, name)
    Files.rmSync(path, { force: true })
    writeGuestFile(path, content, { mode: 0o400, owner })
  }
  if (owner !== null) Files.lchownSync(folder.ports, owner, owner)
}

/** Starts a bridge and waits until it listens. The address behind the socket is socat's second one. */
const startBridge = (ground: Ground, identity: GuestIdentity, name: string, address: string) =>
  Effect.gen(function* () {
    const { groups, init, sandbox, userId } = identity
    const folder = folderIn(ground, sandbox)
    if (!(yield* endBridges(identity, folder, name))) {
      return yield* guestFailure(sandbox, "open a port", "a former bridge could not be ended")
    }
    yield* attempt(sandbox, "open a port", () => {
      Files.rmSync(Path.join(folder.ports, name), { force: true })
      Files.writeFileSync(folder.bridgeLog, "", { mode: 0o600 })
    })
    const options = `fork,mode=600,max-children=${Bounds.guestPortConnectionsMax}`
    const bridge = ["socat", "-lf", "/dev/null", `UNIX-LISTEN:${name},${options}`, address]
    const place = ["/bin/sh", "-c", inDirectory, "holdfast-bridge", ground.staging.seenAt(folder.ports)]
    const paths = groups.map((group) => group.path)
    const started = yield* ground.shell.start({
      first: joinScript(null, paths),
      argv: [...ground.staging.enter(userId, init.pid), ...place, ...bridge],
      mark: [launchMark, sandbox],
      output: folder.bridgeLog,
      written: [],
      read: [],
      pipe: null
    })
    const isListening =
      started !== undefined && (yield* waitUntil(() => isHeld(identity, folder, name), untilBound))
    if (!isListening) return yield* guestFailure(sandbox, "open a port", "its bridge did not come up in time")
  })

/** One line of whoever listens, in answer to one line; undefined when none came in time. */
const ask = (path: string, line: string): Effect.Effect<string | undefined> =>
  Effect.callback<string | undefined>((resume) => {
    const socket = connect({ path })
    const end = (answer?: string) => {
      clearTimeout(deadline)
      socket.destroy()
      resume(Effect.succeed(answer))
    }
    const deadline = setTimeout(end, Bounds.guestPortMillisMax)
    let text = ""
    socket.setEncoding("latin1")
    socket.on("error", () => end())
    socket.on("close", () => end())
    socket.on("data", (part: string) => {
      text += part
      if (text.includes("\n") || text.length > Bounds.agentLineBytesMax) end(text)
    })
    socket.write(`${line}\n`)
    return Effect.sync(() => end())
  })

/** Whether whoever listens at the control socket knows the token. */
const provesToken = (folder: SandboxFolder, token: string): Effect.Effect<boolean> =>
  Effect.suspend(() => {
    const asked = randomBytes(32).toString("hex")
    return Effect.map(ask(Path.join(folder.ports, controlName), asked), (answer) => {
      const proof = Buffer.from(proofOf(token, asked))
      const given = Buffer.from((answer ?? "").slice(0, proof.length).padEnd(proof.length))
      return timingSafeEqual(given, proof)
    })
  })

const countPorts = (folder: SandboxFolder): number =>
  Files.readdirSync(folder.ports).filter((name) => /^\d+\.sock$/.test(name)).length

const refuse = (why: string) => new GuestCallUnsupported({ call: "open a port", why })

/**
 * Leads the port out, for a caller that holds the sandbox's gate and has just seen the guest run. A bridge of before is
 * used when it is proved; what stands in its place without a proof is replaced.
 */
export const openPortUnderGate = (
  ground: Ground,
  identity: GuestIdentity,
  { port, token }: { readonly port: number; readonly token: string }
) =>
  Effect.gen(function* () {
    const { sandbox } = identity
    if (!ground.capabilities.ports) {
      return yield* refuse("it needs a daemon that is root, and socat: run scripts/setup")
    }
    const folder = folderIn(ground, sandbox)
    const path = Path.join(folder.ports, portName(port))
    if (Buffer.byteLength(path) >= Bounds.socketPathBytesMax) {
      return yield* refuse(
        `a socket's path has fewer than ${Bounds.socketPathBytesMax} bytes: give a shorter state directory`
      )
    }
    const look = (name: string) => attempt(sandbox, "look at a port", () => isHeld(identity, folder, name))
    const isKnown = (yield* look(controlName)) && (yield* provesToken(folder, token))
    if (!isKnown) {
      yield* attempt(sandbox, "open a port", () => makePlace(folder, token, ownerOf(ground, identity)))
      yield* startBridge(ground, identity, controlName, `EXEC:/bin/sh ${answerName}`)
      if (!(yield* provesToken(folder, token))) {
        return yield* guestFailure(sandbox, "open a port", "its bridge does not prove the sandbox's token")
      }
    }
    if (yield* look(portName(port))) return path
    const open = yield* attempt(sandbox, "count the ports", () => countPorts(folder))
    if (open >= Bounds.guestPortsMax)
      return yield* refuse(`${open} ports of ${sandbox} are open, the most there may be`)
    yield* startBridge(ground, identity, portName(port), `TCP4:127.0.0.1:${port}`)
    return path
  })
