/**
 * What is known of the end of the commands that run under one execution lease: the evidence on which its holder ends
 * it, read off the events of each command as they pass. It performs nothing.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { ExecutionEvent } from "../guests/GuestSpec.ts"
import { ExecutionEvidence } from "./Lease.ts"

type Evidence = Option.Option<ExecutionEvidence>

const exitedEvidence = (ended: "exited" | "timeout" | "cancelled"): Evidence =>
  Option.some(ExecutionEvidence.cases.Exited.make({ ended }))

const neverStarted: Evidence = Option.some(ExecutionEvidence.cases.NeverStarted.make({}))

/** What the end of the supervisor's stream proves where its last event was no `Exited`. */
const evidenceOfEnd = <A, E extends { readonly _tag: string }>(
  exit: Exit.Exit<A, E>,
  told: boolean
): Evidence => {
  if (Exit.isSuccess(exit) || Exit.hasInterrupts(exit)) return exitedEvidence("cancelled")
  const refused = Option.exists(Cause.findErrorOption(exit.cause), ({ _tag }) => _tag === "GuestStateRefused")
  return refused && !told ? neverStarted : Option.none()
}

/**
 * Follows the commands of one lease, one after the other. What counts as evidence that a command's processes have ended:
 * the supervisor's `Exited`, or its stream closed without a failure after an interruption, since it ends them before it
 * closes. A guest whose state refused the command before any event has begun nothing. Any other failed stream is no
 * evidence: then the lease is retained. Source: SP-LEASE-05, SP-LEASE-06.
 */
export const makeCommandEnd = () => {
  let evidence = neverStarted
  let exited = false
  return {
    /** Of all commands so far; none while one runs, and once the end of one is not known. */
    evidence: (): Evidence => evidence,
    /** Whether the newest command's last event was `Exited`. */
    hasExited: (): boolean => exited,
    /** The events of the next command, watched from before it is begun. */
    follow: <E extends { readonly _tag: string }, R>(
      events: Stream.Stream<ExecutionEvent, E, R>
    ): Stream.Stream<ExecutionEvent, E, R> =>
      Stream.suspend(() => {
        let told = false
        evidence = Option.none()
        exited = false
        return events.pipe(
          Stream.tap((event) =>
            Effect.sync(() => {
              told = true
              if (event._tag !== "Exited") return
              exited = true
              evidence = exitedEvidence(event.ended)
            })
          ),
          Stream.onExit((exit) =>
            Effect.sync(() => {
              if (!exited) evidence = evidenceOfEnd(exit, told)
            })
          )
        )
      })
  }
}
