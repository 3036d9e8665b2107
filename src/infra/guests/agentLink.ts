/**
 * The daemon's end of one guest's agent: orders and answers by lines over two pipes, and the pipes that executions use. Opened by the daemon that launched the guest or by a later one. An answer is a claim of the guest:
 * a line that is too long or of unknown form is dropped, and nothing about life is concluded from it.
 */
import * as Effect from "effect/Effect"
import { randomBytes } from "node:crypto"
import * as Files from "node:fs"
import { Socket } from "node:net"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import type { GuestSignal } from "../../domain/guests/GuestSpec.ts"
import type { GuestIdentity } from "../../domain/guests/GuestSupervisor.ts"
import { agentFiles } from "./agentScript.ts"
import type { SandboxFolder } from "./folders.ts"
import type { LaunchShell } from "./launchShell.ts"
import { makeStock } from "./stock.ts"

const { O_NONBLOCK, O_RDWR } = Files.constants

/** Names of the pipes of one channel. */
export const channelPipes = (channel: string): readonly [output: string, errors: string] => [
  `${channel}.out`,
  `${channel}.err`
]

/** Draws names that no other daemon's executions in this guest have had. */
export const channelNames = (): (() => string) => {
  const session = randomBytes(5).toString("hex")
  let made = 0
  return () => `x${session}-${(made += 1)}`
}

export interface AgentLink {
  readonly identity: GuestIdentity
  readonly folder: SandboxFolder
  /** Host user that files for the guest are given to, or null where it is the daemon's own. */
  readonly owner: number | null
  /** Sends an order; false when the agent's pipe is full and takes none. */
  readonly order: (line: string) => boolean
  /** Listens for the answer `verb subject …` from now on. To be called before the order that asks for it. */
  readonly expect: (verb: string, subject: string) => ExpectedAnswer
  /** A channel whose pipes are ready. Undefined when they could not be made. */
  readonly takeChannel: Effect.Effect<string | undefined>
  /** Whoever waits for an answer gets none. */
  readonly close: () => void
}

/** An answer that is listened for until it has come or is given up. */
export interface ExpectedAnswer {
  /**
   * The words behind verb and subject; undefined when none came in this time, null for any, or before the link was
   * closed. By the machine's own clock, and also where nothing can be interrupted.
   */
  readonly wordsWithin: (millisMax: number | null) => Effect.Effect<ReadonlyArray<string> | undefined>
  readonly giveUp: () => void
}

interface Listener {
  readonly hear: (words: ReadonlyArray<string> | undefined) => void
}
type Waiting = Map<string, Listener>

const deliver = (waiting: Waiting, line: string): void => {
  const [verb, subject, ...words] = line.split(" ")
  const key = `${verb} ${subject}`
  const listener = waiting.get(key)
  waiting.delete(key)
  listener?.hear(words)
}

/** Reads lines off the answers pipe. The descriptor is open for writing too, so that it never ends. */
const listen = (descriptor: number, waiting: Waiting): Socket => {
  let rest = ""
  const socket = new Socket({ fd: descriptor, readable: true, writable: false })
  socket.unref()
  socket.on("error", () => socket.destroy())
  socket.on("data", (bytes: Buffer) => {
    const lines = (rest + bytes.toString("latin1")).split("\n")
    rest = lines.pop() ?? ""
    if (rest.length > Bounds.agentLineBytesMax) rest = ""
    for (const line of lines) if (line.length <= Bounds.agentLineBytesMax) deliver(waiting, line)
  })
  return socket
}

const writeOrder = (descriptor: number, line: string): boolean => {
  try {
    return Files.writeSync(descriptor, `${line}\n`) === line.length + 1
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return false
    throw error
  }
}

const expectAnswer = (waiting: Waiting, verb: string, subject: string): ExpectedAnswer => {
  const key = `${verb} ${subject}`
  let heard: { readonly words: ReadonlyArray<string> | undefined } | undefined
  let wake: (() => void) | undefined
  waiting.set(key, {
    hear: (words) => {
      heard = { words }
      wake?.()
    }
  })
  return {
    wordsWithin: (millisMax) =>
      Effect.callback<ReadonlyArray<string> | undefined>((resume) => {
        const deadline =
          millisMax === null ? undefined : setTimeout(() => resume(Effect.succeed(undefined)), millisMax)
        wake = () => {
          clearTimeout(deadline)
          resume(Effect.succeed(heard?.words))
        }
        if (heard !== undefined) wake()
        return Effect.sync(() => clearTimeout(deadline))
      }),
    giveUp: () => void waiting.delete(key)
  }
}

export interface AgentLinkOptions {
  readonly identity: GuestIdentity
  readonly folder: SandboxFolder
  /** Host user that pipes are given to, or null where it is the daemon's own. */
  readonly owner: number | null
  /** Channels that are ready. */
  readonly channels: ReadonlyArray<string>
  readonly name: () => string
  readonly shell: LaunchShell
}

/** Makes a batch of channels in the agent's directory by one program. */
const makeChannels = ({
  folder,
  name,
  owner,
  shell
}: AgentLinkOptions): Effect.Effect<ReadonlyArray<string>> =>
  Effect.gen(function* () {
    const channels = Array.from({ length: Bounds.executionChannelsMadeMax }, name)
    const pipes = channels.flatMap(channelPipes).map((pipe) => Path.join(folder.agent, pipe))
    if ((yield* shell.run(["mkfifo", "-m", "600", ...pipes])) !== 0) return []
    if (owner !== null) for (const pipe of pipes) Files.lchownSync(pipe, owner, owner)
    return channels
  })

/** Opens the link. */
export const openAgentLink = (options: AgentLinkOptions): AgentLink => {
  const { folder, owner } = options
  const open = (file: string) => Files.openSync(Path.join(folder.agent, file), O_RDWR | O_NONBLOCK)
  const waiting: Waiting = new Map()
  const orders = open(agentFiles.orders)
  const socket = listen(open(agentFiles.answers), waiting)
  const channels = makeStock({
    first: options.channels,
    keptMin: Bounds.executionChannelsKeptMin,
    make: makeChannels(options),
    discard: () => undefined
  })
  let isOpen = true
  return {
    identity: options.identity,
    folder,
    owner,
    order: (line) => isOpen && writeOrder(orders, line),
    expect: (verb, subject) => expectAnswer(waiting, verb, subject),
    takeChannel: Effect.tap(channels.take, () => channels.refill),
    close: () => {
      if (!isOpen) return
      isOpen = false
      channels.close()
      socket.destroy()
      Files.closeSync(orders)
      for (const listener of waiting.values()) listener.hear(undefined)
      waiting.clear()
    }
  }
}

/** Sends an order with a subject of its own and answers the number of the agent's word. Undefined: none came in time. */
const askNumber = (
  link: AgentLink,
  { order, rest = "", verb }: { readonly order: string; readonly verb: string; readonly rest?: string },
  millisMax: number
): Effect.Effect<number | undefined> =>
  Effect.suspend(() => {
    const token = randomBytes(6).toString("hex")
    const answer = link.expect(verb, token)
    if (!link.order(`${order} ${token}${rest}`)) {
      answer.giveUp()
      return Effect.succeed(undefined)
    }
    return answer.wordsWithin(millisMax).pipe(
      Effect.map((words) => (words === undefined ? undefined : Number(words[0]))),
      Effect.ensuring(Effect.sync(answer.giveUp))
    )
  })

/** Asks the agent for a sign; the pid of its main command's keeper inside, 0 without one. Undefined: no answer in time. */
export const askAgent = (link: AgentLink, millisMax: number): Effect.Effect<number | undefined> =>
  askNumber(link, { order: "ping", verb: "pong" }, millisMax)

/** Has the main command signalled; the status of that, not 0 without a main command. Undefined: no answer in time. */
export const signalMain = (
  link: AgentLink,
  signal: GuestSignal,
  millisMax: number
): Effect.Effect<number | undefined> =>
  askNumber(link, { order: "signal", verb: "signalled", rest: ` ${signal}` }, millisMax)
