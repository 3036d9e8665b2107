/**
 * What runs in a guest under an execution lease that its caller holds: from the look at the lease before it starts to
 * the evidence of its end. Who was let in, and what becomes of the output, is the caller's business. Source: SP-LEASE-07.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { cancelledExitCode } from "../Bounds.ts"
import { ExecutionEvent } from "../guests/GuestSpec.ts"
import type { LeaseHandle } from "./execution.ts"
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
 * The events of an execution under its lease; the last is `Exited`, also after a cancellation. Refused with `LeaseLost`
 * before anything is begun. The end of the scope ends the lease by the evidence that there is then.
 *
 * What counts as evidence that its processes have ended: the supervisor's `Exited`, or its stream closed without a failure
 * after an interruption, since it ends them before it closes. A guest whose state refused the command before any event
 * has begun nothing. Any other failed stream is no evidence: then the lease is retained. Source: SP-LEASE-05, SP-LEASE-06.
 */
export const executeLeased = Effect.fnUntraced(function* <E extends { readonly _tag: string }, R>(
  handle: LeaseHandle,
  execution: Stream.Stream<ExecutionEvent, E, R>
) {
  let evidence = neverStarted
  let told = false
  let exited = false
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => handle.finalize(evidence)).pipe(
      Effect.catch((failure) =>
        Effect.logWarning(`lease ${handle.lease.id} is settled by a later heartbeat: ${failure.message}`)
      )
    )
  )
  yield* handle.confirm
  const events = Stream.suspend(() => {
    evidence = Option.none()
    return execution
  }).pipe(
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
    ),
    Stream.interruptWhen(handle.cancelRequested)
  )
  const cancelled = Stream.suspend(() =>
    exited
      ? Stream.empty
      : Stream.succeed(ExecutionEvent.cases.Exited.make({ exitCode: cancelledExitCode, ended: "cancelled" }))
  )
  return Stream.concat(events, cancelled)
})
