/**
 * What the registry asks of a disk, as data, so that a thread can be handed it; and the one program that carries it out,
 * whoever drives it.
 */
import { type Call, type Calls, createSynced, type FileCalls } from "./durable.ts"
import { errorName } from "./privateFiles.ts"

/** Paths are absolute, or below a descriptor of this process. */
export type DiskStep =
  | { readonly step: "create"; readonly path: string; readonly text: string }
  | { readonly step: "rename"; readonly from: string; readonly to: string }
  | { readonly step: "unlink"; readonly path: string }
  | { readonly step: "sync"; readonly descriptor: number }

/** The step that failed, by its place, and why; those before it have been done. */
export interface StepFailed {
  readonly at: number
  readonly why: string
}

/** Carries steps out one after another, until one fails. Calls back once, with the failure or null. */
export type CarryOut = (steps: ReadonlyArray<DiskStep>, done: (failed: StepFailed | null) => void) => void

/** A disk: the calls that look at it and make its directories, and what changes its files. */
export interface Disk {
  readonly calls: FileCalls
  readonly carryOut: CarryOut
}

function* callsOf(step: DiskStep, calls: FileCalls): Calls {
  switch (step.step) {
    case "create":
      yield* createSynced(step.path, step.text, calls)
      return
    case "rename":
      yield "rename"
      calls.renameSync(step.from, step.to)
      return
    case "unlink":
      yield "unlink"
      calls.unlinkSync(step.path)
      return
    case "sync":
      yield "fsync"
      calls.fsyncSync(step.descriptor)
  }
}

/** The calls of the steps, until one of them fails. */
export function* callsOfAll(
  steps: ReadonlyArray<DiskStep>,
  calls: FileCalls
): Generator<Call, StepFailed | null> {
  for (const [at, step] of steps.entries()) {
    try {
      yield* callsOf(step, calls)
    } catch (error) {
      return { at, why: errorName(error) }
    }
  }
  return null
}

/**
 * Carries steps out in this thread, for calls that do not reach a disk. `schedule` is given each call before it is
 * made, and makes it now or later.
 */
export const carryOutHere =
  (calls: FileCalls, schedule: (go: () => void, call: Call) => void = (go) => go()): CarryOut =>
  (steps, done) => {
    const program = callsOfAll(steps, calls)
    const go = (): void => {
      const next = program.next()
      if (next.done === true) done(next.value)
      else schedule(go, next.value)
    }
    go()
  }
