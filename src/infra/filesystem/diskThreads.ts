/**
 * Threads that write and flush, so that the event loop never waits for a disk. Several steps go to a thread in one trip,
 * which costs a fifth of a trip to the runtime's own pool for each call, and the flushes of several threads share the
 * commits of the file system's journal. They belong to the process, as that pool does: started when they are first
 * needed, never ended, and no reason for the process to stay. Source: docs/decisions.
 */
import * as Files from "node:fs"
import { Worker } from "node:worker_threads"
import { diskThreadsMax } from "../../domain/Bounds.ts"
import type { CarryOut, Disk, DiskStep, StepFailed } from "./diskSteps.ts"

export interface Order {
  readonly id: number
  readonly steps: ReadonlyArray<DiskStep>
}

export interface Answer {
  readonly id: number
  readonly failed: StepFailed | null
}

interface Waiting {
  readonly steps: ReadonlyArray<DiskStep>
  readonly done: (failed: StepFailed | null) => void
}

/** Beside this file, in the form in which this file itself runs. */
const program = new URL(
  import.meta.url.endsWith(".ts") ? "./diskThread.ts" : "./diskThread.js",
  import.meta.url
)

class DiskThread {
  private readonly worker = new Worker(program, { execArgv: [], name: "holdfast-disk" })
  private readonly waiting = new Map<number, Waiting>()
  private outbox: Array<Order> = []
  private lastId = 0

  constructor(ended: (thread: DiskThread) => void) {
    this.worker.unref()
    this.worker.on("message", (answers: ReadonlyArray<Answer>) => {
      const answered = answers.map(({ failed, id }) => ({ one: this.waiting.get(id), failed }))
      for (const { id } of answers) this.waiting.delete(id)
      if (this.waiting.size === 0) this.worker.unref()
      for (const { failed, one } of answered) one?.done(failed)
    })
    // Its end follows, and that answers whoever waits.
    this.worker.on("error", () => undefined)
    this.worker.on("exit", () => {
      ended(this)
      this.abandon()
    })
  }

  get orders(): number {
    return this.waiting.size
  }

  carryOut(one: Waiting): void {
    this.lastId += 1
    if (this.waiting.size === 0) this.worker.ref()
    this.waiting.set(this.lastId, one)
    this.outbox.push({ id: this.lastId, steps: one.steps })
    if (this.outbox.length === 1) queueMicrotask(this.send)
  }

  /** What was asked for in the same moment goes together, and is answered together. */
  private readonly send = (): void => {
    this.worker.postMessage(this.outbox)
    this.outbox = []
  }

  /** Nobody knows how far it came: the last step failed, which leaves those before it in doubt. */
  private abandon(): void {
    for (const { done, steps } of this.waiting.values()) {
      done({ at: steps.length - 1, why: "the thread that writes has ended" })
    }
    this.waiting.clear()
  }
}

const threads = new Set<DiskThread>()

/** The thread with the least to do; one more while all are busy and there may be more. */
const pick = (): DiskThread => {
  const [least] = [...threads].toSorted((one, other) => one.orders - other.orders)
  if (least !== undefined && (least.orders === 0 || threads.size >= diskThreadsMax)) return least
  const started = new DiskThread((ended) => threads.delete(ended))
  threads.add(started)
  return started
}

const carryOut: CarryOut = (steps, done) => pick().carryOut({ steps, done })

/** The disk of this machine. */
export const nodeDisk: Disk = { calls: Files, carryOut }
