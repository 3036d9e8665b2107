/**
 * One command in a Project's runtime, under its execution lease from before it starts until its processes are known
 * to have ended. The output is streamed as it comes and stored nowhere. Source: SP-LEASE-07, SP-ADM-05.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { cancelledExitCode } from "../Bounds.ts"
import { ExecutionEvent, type GuestCommand } from "../guests/GuestSpec.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { Caller } from "../host/Accounts.ts"
import type { LeaseId, ProjectId } from "../Identity.ts"
import { admitExecution } from "../leases/execution.ts"
import { ExecutionEvidence, labelOfCommand } from "../leases/Lease.ts"

/** First event of an execution; the id is its lease's, by which it can be cancelled. */
export interface ExecutionStarted {
  readonly _tag: "Started"
  readonly execution: LeaseId
}

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
 * Runs the command and answers its events; the last is `Exited`, also after a cancellation. Refused with what
 * `admitExecution` refuses, before anything is started. Interrupting the stream ends the command's processes.
 *
 * What counts as evidence that they have ended: the supervisor's `Exited`, or its stream closed without a failure
 * after an interruption, since it ends them before it closes. A guest whose state refused the command before any event
 * has begun nothing. Any other failed stream is no evidence: then the lease is retained. Source: SP-LEASE-05, SP-LEASE-06.
 */
export const runCommand = (caller: Caller, project: ProjectId, command: GuestCommand) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const handle = yield* admitExecution(caller, { project, label: labelOfCommand(command.argv) })
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
        return supervisor.execute(handle.sandbox, command)
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
          : Stream.succeed(
              ExecutionEvent.cases.Exited.make({ exitCode: cancelledExitCode, ended: "cancelled" })
            )
      )
      const started: ExecutionStarted = { _tag: "Started", execution: handle.lease.id }
      return Stream.succeed<ExecutionStarted | ExecutionEvent>(started).pipe(
        Stream.concat(events),
        Stream.concat(cancelled)
      )
    })
  )
