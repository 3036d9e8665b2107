/**
 * The daemon's end of one conversation with a worker: requests under way, their budgets, and the answers as they arrive.
 * It knows no process. Whatever ends the conversation fails all that wait, and the failure says why.
 */
import * as Effect from "effect/Effect"
import * as Bounds from "../../domain/Bounds.ts"
import type { JsonObject } from "../../domain/Json.ts"
import { type LogSink, ProviderCallFailed, ProviderRpcError } from "../../domain/providers/ProviderWorkers.ts"
import * as Messages from "./workerMessages.ts"

export interface Answer {
  readonly result: unknown
  /** The span that the provider made for it, where it told one. */
  readonly meta: Messages.Meta
}

export interface Asked {
  readonly budgetMillis: number
  readonly logSink?: LogSink | undefined
  readonly meta?: Messages.Meta
}

export type CallError = ProviderRpcError | ProviderCallFailed

export interface WorkerChannel {
  readonly request: (method: string, params: JsonObject, asked: Asked) => Effect.Effect<Answer, CallError>
  readonly notify: (method: string, params: JsonObject) => void
  /** Takes what the worker wrote. */
  readonly take: (bytes: Buffer) => void
  /** Fails what waits and refuses what comes. The first reason stays. */
  readonly close: (why: ProviderCallFailed["why"]) => void
  readonly isOpen: () => boolean
}

export interface ChannelOptions {
  readonly write: (text: string) => void
  /** Bytes written that the worker has not read. */
  readonly unread: () => number
  /** The worker broke the protocol: it cannot be understood any more. */
  readonly broken: (why: "oversized" | "malformed") => void
}

interface Waiting {
  readonly method: string
  readonly logSink: LogSink | undefined
  readonly end: (outcome: Effect.Effect<Answer, CallError>) => void
  logBytes: number
}

/** A conversation under way. `closed` is why there is none any more. */
interface Talk extends ChannelOptions {
  readonly waiting: Map<number, Waiting>
  closed: ProviderCallFailed["why"] | undefined
  last: number
}

const failed = (method: string, why: ProviderCallFailed["why"]) =>
  Effect.fail(new ProviderCallFailed({ method, why }))

const close = (talk: Talk, why: ProviderCallFailed["why"]): void => {
  talk.closed ??= why
  for (const each of talk.waiting.values()) each.end(failed(each.method, talk.closed))
  talk.waiting.clear()
}

const breakOff = (talk: Talk, why: "oversized" | "malformed"): void => {
  close(talk, why)
  talk.broken(why)
}

const deliverLog = (
  waiting: Waiting | undefined,
  log: Messages.FromWorker & { readonly _tag: "Log" }
): void => {
  if (waiting?.logSink === undefined) return
  waiting.logBytes += log.text.length
  if (waiting.logBytes <= Bounds.providerLogBytesMax) waiting.logSink({ stream: log.stream, text: log.text })
}

const hear = (talk: Talk, line: string): void => {
  if (talk.closed !== undefined) return
  const message = Messages.readMessage(line)
  if (message === undefined) return breakOff(talk, "malformed")
  const asked = talk.waiting.get(message.id)
  if (message._tag === "Log") return deliverLog(asked, message)
  // An answer to a call that was given up is no news to anybody.
  if (asked === undefined) return
  talk.waiting.delete(message.id)
  asked.end(
    message._tag === "Answer"
      ? Effect.succeed({ result: message.result, meta: message.meta })
      : Effect.fail(new ProviderRpcError(message))
  )
}

const notify = (talk: Talk, method: string, params: JsonObject): void => {
  if (talk.closed === undefined) talk.write(Messages.notification(method, params))
}

const refusal = (talk: Talk, text: string): ProviderCallFailed["why"] | undefined => {
  if (talk.closed !== undefined) return talk.closed
  if (Buffer.byteLength(text) > Bounds.providerMessageBytesMax) return "oversized"
  const isBusy =
    talk.waiting.size >= Bounds.providerCallsInFlightMax || talk.unread() > Bounds.providerOutboxBytesMax
  return isBusy ? "busy" : undefined
}

const ask =
  (talk: Talk): WorkerChannel["request"] =>
  (method, params, { budgetMillis, logSink, meta = {} }) =>
    Effect.callback((resume) => {
      const id = (talk.last += 1)
      const text = Messages.request(id, method, params, meta)
      const refused = refusal(talk, text)
      if (refused !== undefined) return resume(failed(method, refused))
      const giveUp = (): boolean => {
        if (!talk.waiting.delete(id)) return false
        notify(talk, Messages.cancelNote, { id })
        return true
      }
      const deadline = setTimeout(() => {
        if (giveUp()) resume(failed(method, "timeout"))
      }, budgetMillis)
      const end: Waiting["end"] = (outcome) => {
        clearTimeout(deadline)
        resume(outcome)
      }
      talk.waiting.set(id, { method, logSink, logBytes: 0, end })
      talk.write(text)
      return Effect.sync(() => {
        clearTimeout(deadline)
        giveUp()
      })
    })

export const makeChannel = (options: ChannelOptions): WorkerChannel => {
  const talk: Talk = { ...options, waiting: new Map(), closed: undefined, last: 0 }
  const read = Messages.lineReader((line) => hear(talk, line))
  return {
    request: ask(talk),
    notify: (method, params) => notify(talk, method, params),
    take: (bytes) => {
      if (talk.closed === undefined && !read(bytes)) breakOff(talk, "oversized")
    },
    close: (why) => close(talk, why),
    isOpen: () => talk.closed === undefined
  }
}
