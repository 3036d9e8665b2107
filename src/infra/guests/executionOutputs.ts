/**
 * Reads the outputs of one execution off its pipes, each up to the bound, and hands them on as events. A reader that
 * falls behind leaves the pipes full, so that the command waits; nothing is kept beyond the bound.
 */
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Files from "node:fs"
import { Socket } from "node:net"
import * as Bounds from "../../domain/Bounds.ts"
import { ExecutionEvent } from "../../domain/guests/GuestSpec.ts"

const { O_NONBLOCK, O_RDONLY } = Files.constants

export interface ExecutionOutputs {
  /** Both pipes have come to their end. */
  readonly ended: Effect.Effect<void>
  /** An event was taken by the reader. */
  readonly taken: (event: ExecutionEvent) => void
  /** From now on reads without waiting for the reader: what is left is little. */
  readonly hurry: () => void
  readonly close: () => void
}

type StreamName = "stdout" | "stderr"

/** Cuts one stream at its bound; says once that it did. */
const bounded = (stream: StreamName, emit: (event: ExecutionEvent) => void, bytesMax: number) => {
  let left = bytesMax
  let isTruncated = false
  return (bytes: Uint8Array): void => {
    const kept = bytes.subarray(0, left)
    left -= kept.length
    if (kept.length > 0) emit(ExecutionEvent.cases.Output.make({ stream, bytes: new Uint8Array(kept) }))
    if (kept.length === bytes.length || isTruncated) return
    isTruncated = true
    emit(ExecutionEvent.cases.Truncated.make({ stream, bytesMax }))
  }
}

const sizeOf = (event: ExecutionEvent): number => (event._tag === "Output" ? event.bytes.length : 0)

const openPipe = (path: string): Socket =>
  new Socket({ fd: Files.openSync(path, O_RDONLY | O_NONBLOCK), readable: true, writable: false })

/** Opens both pipes, which lets a waiting runner go on. */
export const openOutputs = (options: {
  readonly output: string
  readonly errors: string
  readonly events: Queue.Enqueue<ExecutionEvent>
}): ExecutionOutputs => {
  let pending = 0
  let isHurried = false
  let open = 2
  let onEnd: (() => void) | undefined
  const emit = (event: ExecutionEvent) => {
    pending += sizeOf(event)
    Queue.offerUnsafe(options.events, event)
    if (pending > Bounds.executionBufferedBytesMax && !isHurried) for (const each of sockets) each.pause()
  }
  const resume = () => {
    for (const each of sockets) each.resume()
  }
  const read = (stream: StreamName, path: string): Socket => {
    const socket = openPipe(path)
    socket.on("data", bounded(stream, emit, Bounds.executionOutputBytesMax))
    socket.on("error", () => socket.destroy())
    socket.on("close", () => {
      open -= 1
      if (open === 0) onEnd?.()
    })
    return socket
  }
  const sockets = [read("stdout", options.output), read("stderr", options.errors)]
  return {
    ended: Effect.callback<void>((done) => {
      if (open === 0) return done(Effect.void)
      onEnd = () => done(Effect.void)
    }),
    taken: (event) => {
      pending -= sizeOf(event)
      if (pending <= Bounds.executionBufferedBytesMax / 2) resume()
    },
    hurry: () => {
      isHurried = true
      resume()
    },
    close: () => {
      for (const each of sockets) each.destroy()
    }
  }
}
