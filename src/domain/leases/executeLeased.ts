/**
 * What runs in a guest under an execution lease that its caller holds: from the look at the lease before it starts to
 * the evidence of its end. Who was let in, and what becomes of the output, is the caller's business. Source: SP-LEASE-07.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { cancelledExitCode } from "../Bounds.ts"
import { ExecutionEvent } from "../guests/GuestSpec.ts"
import { makeCommandEnd } from "./commandEnd.ts"
import type { LeaseHandle } from "./execution.ts"

/**
 * The events of an execution under its lease; the last is `Exited`, also after a cancellation. Refused with `LeaseLost`
 * before anything is begun. The end of the scope ends the lease by the evidence that there is then.
 *
 * Without evidence that its processes have ended (commandEnd.ts) the lease is retained. Source: SP-LEASE-05, SP-LEASE-06.
 */
export const executeLeased = Effect.fnUntraced(function* <E extends { readonly _tag: string }, R>(
  handle: LeaseHandle,
  execution: Stream.Stream<ExecutionEvent, E, R>
) {
  const end = makeCommandEnd()
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => handle.finalize(end.evidence())).pipe(
      Effect.catch((failure) =>
        Effect.logWarning(`lease ${handle.lease.id} is settled by a later heartbeat: ${failure.message}`)
      )
    )
  )
  yield* handle.confirm
  const events = Stream.interruptWhen(end.follow(execution), handle.cancelRequested)
  const cancelled = Stream.suspend(() =>
    end.hasExited()
      ? Stream.empty
      : Stream.succeed(ExecutionEvent.cases.Exited.make({ exitCode: cancelledExitCode, ended: "cancelled" }))
  )
  return Stream.concat(events, cancelled)
})
