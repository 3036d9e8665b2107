/**
 * Adapter of Processes over /proc: boot id, and of each pid its state and its start time in ticks after boot. The
 * decision what that means is in the domain. Linux only.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { readFileSync } from "node:fs"
import { readFile } from "node:fs/promises"
import * as Identifiers from "../domain/Identifiers.ts"
import { type NodeId, ProcessIdentity } from "../domain/Identity.ts"
import { decideLiveness, Processes, ProcessSighting } from "../domain/Processes.ts"

/**
 * Reads a stat line. The command in field 2 may hold spaces and parentheses, so fields are counted after the last
 * closing one: the state is field 3, the start time field 22.
 */
export const readStatLine = (line: string): ProcessSighting => {
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ")
  const state = fields[0]
  const startTicks = fields[19]
  if (state === undefined || startTicks === undefined || !/^\d+$/.test(startTicks)) {
    return ProcessSighting.Unreadable()
  }
  return state === "Z" || state === "X" || state === "x"
    ? ProcessSighting.Absent()
    : ProcessSighting.Present({ startTicks })
}

/** A process that exists but is hidden from us (hidepid) answers signal 0 with "not permitted". */
const isHidden = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH"
  }
}

/** What this machine shows under the pid. */
export const sight = (pid: number): Effect.Effect<ProcessSighting> =>
  Effect.promise(() =>
    readFile(`/proc/${pid}/stat`, "utf8").then(readStatLine, (error: NodeJS.ErrnoException) =>
      (error.code === "ENOENT" || error.code === "ESRCH") && !isHidden(pid)
        ? ProcessSighting.Absent()
        : ProcessSighting.Unreadable()
    )
  )

const ownIdentity = (node: NodeId, daemon: string): ProcessIdentity => {
  const own = readStatLine(readFileSync("/proc/self/stat", "utf8"))
  if (own._tag !== "Present") {
    throw new Error("this process cannot read its own start time: /proc/self/stat has another form")
  }
  return new ProcessIdentity({
    daemon,
    node,
    bootId: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
    pid: process.pid,
    startTicks: own.startTicks
  })
}

/** The port for one daemon on the given node. Draws the daemon's uuid once. A machine without /proc is a defect. */
export const layer = (node: NodeId): Layer.Layer<Processes, never, Identifiers.Identifiers> =>
  Layer.effect(
    Processes,
    Effect.gen(function* () {
      const identifiers = yield* Identifiers.Identifiers
      const daemon = yield* identifiers.uuid
      const current = yield* Effect.sync(() => ownIdentity(node, daemon))
      return {
        current,
        liveness: (identity) =>
          Effect.map(sight(identity.pid), (sighting) => decideLiveness(current, identity, sighting))
      }
    })
  )
