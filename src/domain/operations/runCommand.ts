/**
 * One command in a Project's runtime, under its execution lease from before it starts until its processes are known
 * to have ended. The output is streamed as it comes and stored nowhere. Source: SP-LEASE-07, SP-ADM-05.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { ExecutionEvent, GuestCommand } from "../guests/GuestSpec.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { makeRedactor } from "../guests/redaction.ts"
import type { Caller } from "../host/Accounts.ts"
import { type LaunchCredential, resolveCredentials } from "../host/LaunchCredentials.ts"
import type { LeaseId, ProjectId } from "../Identity.ts"
import { admitExecution } from "../leases/execution.ts"
import { executeLeased } from "../leases/executeLeased.ts"
import { labelOfCommand } from "../leases/Lease.ts"

/** First event of an execution; the id is its lease's, by which it can be cancelled. */
export interface ExecutionStarted {
  readonly _tag: "Started"
  readonly execution: LeaseId
}

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

/**
 * Runs the command and answers its events; the last is `Exited`, also after a cancellation. Refused with what
 * `admitExecution` refuses, before anything is started. Interrupting the stream ends the command's processes, and
 * `executeLeased` says what becomes of its lease.
 */
export const runCommand = (caller: Caller, project: ProjectId, command: GuestCommand) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      // Before anything is admitted: no transaction may be open. Source: SP-TX-10.
      const credentials = yield* resolveCredentials(caller, project)
      const handle = yield* admitExecution(caller, { project, label: labelOfCommand(command.argv) })
      const events = yield* executeLeased(
        handle,
        redacted(credentials)(supervisor.execute(handle.sandbox, withCredentials(command, credentials)))
      )
      const started: ExecutionStarted = { _tag: "Started", execution: handle.lease.id }
      return Stream.succeed<ExecutionStarted | ExecutionEvent>(started).pipe(Stream.concat(events))
    })
  )
