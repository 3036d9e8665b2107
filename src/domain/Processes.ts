/**
 * Port that tells whether a process that wrote its identity into a row still lives on this machine, and the pure
 * decision behind the answer. Used before a claim or a lease of somebody else is taken over; what is done with the
 * answer belongs to those who ask.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type { ProcessIdentity } from "./Identity.ts"

/** What the machine shows under a pid. A zombie is `Absent`: it executes nothing any more. */
export type ProcessSighting = Data.TaggedEnum<{
  Absent: {}
  Present: { readonly startTicks: string }
  /** The machine would not tell: never read as absence. */
  Unreadable: {}
}>
export const ProcessSighting = Data.taggedEnum<ProcessSighting>()

/** `elsewhere`: a process of another node, of which this machine can say nothing. */
export type Liveness = "alive" | "dead" | "elsewhere"

/**
 * Decides from a sighting whether the writer of an identity lives. A process of another boot of the same node is
 * dead; so is one whose pid is gone or belongs to a process with another start time. A missed heartbeat is no
 * evidence here. Source: SP-OPS-02, SP figures.
 */
export const decideLiveness = (
  here: ProcessIdentity,
  other: ProcessIdentity,
  sighting: ProcessSighting
): Liveness => {
  if (other.node !== here.node) {
    return "elsewhere"
  }
  if (other.bootId !== here.bootId) {
    return "dead"
  }
  return ProcessSighting.$match(sighting, {
    Absent: () => "dead" as const,
    Present: ({ startTicks }) => (startTicks === other.startTicks ? ("alive" as const) : ("dead" as const)),
    Unreadable: () => "alive" as const
  })
}

export class Processes extends Context.Service<
  Processes,
  {
    /** Identity of this daemon process; the same value for its whole life. */
    readonly current: ProcessIdentity
    /** Looks at the machine now. Never fails: what cannot be read counts as alive. */
    readonly liveness: (identity: ProcessIdentity) => Effect.Effect<Liveness>
  }
>()("holdfast/domain/Processes") {}
