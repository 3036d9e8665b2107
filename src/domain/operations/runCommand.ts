/**
 * One command in a Project's runtime, under its execution lease from before it starts until its processes are known
 * to have ended. The output is streamed as it comes and stored nowhere. Source: SP-LEASE-07, SP-ADM-05.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { cancelledExitCode } from "../Bounds.ts"
import { ExecutionEvent, GuestCommand } from "../guests/GuestSpec.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { makeRedactor } from "../guests/redaction.ts"
import type { Caller } from "../host/Accounts.ts"
import { type LaunchCredential, resolveCredentials } from "../host/LaunchCredentials.ts"
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

/** What the command asks for itself goes before what the host hands it. */
const withCredentials = (command: GuestCommand, credentials: ReadonlyArray<LaunchCredential>): GuestCommand =>
  credentials.length === 0
    ? command
    : new GuestCommand({
        ...command,
        environment: {
          ...Object.fromEntries(credentials.map(({ name, value }) => [name, Redacted.value(value)])),
          ...command.environment
        }
      })

/** The events without the credentials in their bytes; what was held back goes on before the end. Source: SP-TX-11. */
const redacted = (credentials: ReadonlyArray<LaunchCredential>) => {
  const secrets = credentials.map(({ value }) => Redacted.value(value))
  return <E, R>(events: Stream.Stream<ExecutionEvent, E, R>): Stream.Stream<ExecutionEvent, E, R> => {
    if (secrets.length === 0) return events
    const redactors = { stdout: makeRedactor(secrets), stderr: makeRedactor(secrets) }
    const output = (stream: "stdout" | "stderr", bytes: Uint8Array) =>
      bytes.length === 0 ? [] : [ExecutionEvent.cases.Output.make({ stream, bytes })]
    return Stream.flatMap(events, (event): Stream.Stream<ExecutionEvent> => {
      switch (event._tag) {
        case "Output":
          return Stream.fromIterable(output(event.stream, redactors[event.stream].push(event.bytes)))
        case "Truncated":
          return Stream.fromIterable([...output(event.stream, redactors[event.stream].end()), event])
        case "Exited":
          return Stream.fromIterable([
            ...output("stdout", redactors.stdout.end()),
            ...output("stderr", redactors.stderr.end()),
            event
          ])
      }
    })
  }
}

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
      // Before anything is admitted: no transaction may be open. Source: SP-TX-10.
      const credentials = yield* resolveCredentials(caller, project)
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
        return supervisor.execute(handle.sandbox, withCredentials(command, credentials))
      }).pipe(
        redacted(credentials),
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
