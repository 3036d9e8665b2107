/**
 * One command in an environment, from a lease of its own to that lease's end: acquire, bring a workspace, execute with its
 * output as it comes, release. Whoever leaves ends it all; what a process that died left is ended by interruptedRuns.ts.
 * Source: RL sections 3.6 and 4.3.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import { executionOutputBytesMax, executionTimeoutMillisMax } from "../Bounds.ts"
import { acquisitionDiagnosticsOf } from "../environments/creationDiagnostics.ts"
import type { Environment } from "../environments/Environment.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import type { Caller } from "../host/Accounts.ts"
import type { RunId } from "../Identity.ts"
import { Processes } from "../Processes.ts"
import type { CommandResult } from "../providers/BuiltInProviders.ts"
import { DaemonRuns, daemonSourcePrefix } from "../work/DaemonRuns.ts"
import type { Run } from "../work/Work.ts"
import { WorkStore } from "../work/WorkStore.ts"
import { EnvironmentDisabled, findEnvironment, requireAdministrator } from "./environmentAccess.ts"
import { EnvironmentRuntime } from "./EnvironmentRuntime.ts"

export interface RunRequest {
  /** Name or id of the environment. */
  readonly environment: string
  readonly argv: readonly [string, ...ReadonlyArray<string>]
  readonly variables: { readonly [name: string]: string }
  /** In the environment; else where its workspace is. */
  readonly workingDirectory?: string
  readonly standardInput?: string
  readonly timeoutMillis?: number
  /** A directory of the daemon's machine that is brought there. */
  readonly workspacePath?: string
}

type OutputStream = "stdout" | "stderr"

/** `Started` comes first, `Exited` last, and `Released` right before it. */
export type RunEvent =
  | { readonly _tag: "Started"; readonly run: RunId; readonly lease: EnvironmentLease }
  | { readonly _tag: "Output"; readonly stream: OutputStream; readonly text: string }
  | { readonly _tag: "Truncated"; readonly stream: OutputStream; readonly bytesMax: number }
  | { readonly _tag: "Released"; readonly lease: EnvironmentLease }
  | { readonly _tag: "Exited"; readonly result: CommandResult }

type Events = Queue.Enqueue<RunEvent, Error | Cause.Done>

/** Passes the output on until it is too much, and tells at the end what a provider did not tell meanwhile. */
const outputsInto = (events: Events) => {
  const encoder = new TextEncoder()
  const told = { stdout: { characters: 0, bytes: 0 }, stderr: { characters: 0, bytes: 0 } }
  const take = ({ stream, text }: { readonly stream: OutputStream; readonly text: string }): void => {
    const so = told[stream]
    if (text === "" || so.bytes > executionOutputBytesMax) return
    so.characters += text.length
    so.bytes += encoder.encode(text).length
    Queue.offerUnsafe(
      events,
      so.bytes > executionOutputBytesMax
        ? { _tag: "Truncated", stream, bytesMax: executionOutputBytesMax }
        : { _tag: "Output", stream, text }
    )
  }
  const rest = (result: CommandResult): void => {
    for (const stream of ["stdout", "stderr"] as const) {
      take({ stream, text: result[stream].slice(told[stream].characters) })
    }
  }
  return { take, rest }
}

/** Where a command begins when nobody says it. */
const startingFolder = ({ config }: Environment, { metadata }: EnvironmentLease): string => {
  const places = [metadata["remoteCwd"], metadata["remoteWorkspacePath"], config["remoteWorkspacePath"]]
  return (places.find((place) => typeof place === "string" && place !== "") as string | undefined) ?? "/"
}

const beginRun = Effect.fnUntraced(function* ({ tenant }: Caller) {
  const { current } = yield* Processes
  const agent = yield* DaemonRuns.use((runs) => runs.agentOf(tenant))
  const invocationSource = `${daemonSourcePrefix}${current.toString()}`
  return yield* WorkStore.use((work) =>
    work.createRun({ tenant, agent, status: "running", invocationSource })
  )
})

const carryOut = Effect.fnUntraced(function* (
  run: Run,
  request: RunRequest,
  place: { readonly environment: Environment; readonly isManaged: boolean },
  events: Events
) {
  const runtime = yield* EnvironmentRuntime
  const { environment, isManaged } = place
  const { lease } = yield* runtime.acquireRunLease({
    tenant: run.tenant,
    environment,
    task: null,
    run: run.id,
    executionWorkspace: null,
    assertTenantBinding: isManaged
  })
  Queue.offerUnsafe(events, { _tag: "Started", run: run.id, lease })
  const { argv, standardInput, timeoutMillis, variables, workingDirectory, workspacePath } = request
  const realized =
    workspacePath === undefined
      ? undefined
      : yield* runtime.realizeWorkspace({
          environment,
          lease,
          workspace: { localPath: workspacePath, mode: "shared_workspace" }
        })
  const { rest, take } = outputsInto(events)
  const [command, ...args] = argv
  const result = yield* runtime.execute({
    environment,
    lease,
    command,
    args,
    cwd: workingDirectory ?? realized?.cwd ?? startingFolder(environment, lease),
    env: variables,
    timeoutMillis: timeoutMillis ?? executionTimeoutMillisMax,
    ...(standardInput === undefined ? {} : { stdin: standardInput }),
    logSink: take
  })
  rest(result)
  return result
})

/** What a failed acquisition is known to have come to. Source: RL-CREATE-07. */
const diagnosticsOf = (cause: Cause.Cause<unknown>, { id, tenant }: Run, environment: Environment) =>
  Cause.findErrorOption(cause).pipe(
    Option.flatMap((error) =>
      acquisitionDiagnosticsOf(error, { tenant, environment: environment.id, run: id })
    ),
    Option.match({ onNone: () => ({}), onSome: (execution) => ({ result: { execution } }) })
  )

/** How a run ended, as its row says it. */
const endOf = (run: Run, environment: Environment, exit: Exit.Exit<CommandResult, unknown>) => {
  if (Exit.isSuccess(exit)) {
    const { exitCode, signal, timedOut } = exit.value
    const status = exitCode === 0 && !timedOut ? ("succeeded" as const) : ("failed" as const)
    return { status, result: { execution: { exitCode, signal, timedOut } } }
  }
  if (Exit.hasInterrupts(exit)) return { status: "cancelled" as const, errorCode: "interrupted" }
  const diagnostics = diagnosticsOf(exit.cause, run, environment)
  return { status: "failed" as const, errorCode: "run_failed", ...diagnostics }
}

/**
 * The lease goes before its run is over, so that a run whose release was cut off is found by its process. A lease that
 * could not be ended is owed by its row, and is no failure of the command. Never fails.
 */
const endRun = Effect.fnUntraced(
  function* (run: Run, environment: Environment, exit: Exit.Exit<CommandResult, unknown>) {
    const released = yield* EnvironmentRuntime.use((runtime) =>
      runtime.releaseRunLeases(run.id, {
        status: Exit.isSuccess(exit) ? "released" : "failed",
        disposition: "destroy",
        cancelActiveWork: true,
        onError: (lease, error) =>
          Effect.logWarning("a lease of a run was not released: the sweep goes on with it").pipe(
            Effect.annotateLogs({ leaseId: lease, runId: run.id, error: error.name })
          )
      })
    )
    yield* WorkStore.use((work) => work.setRunStatus(run.id, endOf(run, environment, exit)))
    return released.map(({ lease }) => lease)
  },
  (effect, run) =>
    Effect.catch(effect, () =>
      Effect.as(
        Effect.logWarning("the end of a run was not stored: the sweep goes on with its leases").pipe(
          Effect.annotateLogs({ runId: run.id })
        ),
        []
      )
    )
)

const prepare = Effect.fnUntraced(function* (caller: Caller, request: RunRequest) {
  const environment = yield* findEnvironment(request.environment)
  if (environment.status === "disabled")
    return yield* new EnvironmentDisabled({ environment: environment.id })
  if (environment.driver === "local" || request.workspacePath !== undefined)
    yield* requireAdministrator(caller, "machine")
  return { environment, isManaged: !caller.administrator }
})

const carried = (caller: Caller, request: RunRequest, events: Events) =>
  Effect.gen(function* () {
    const place = yield* prepare(caller, request)
    const released = yield* Ref.make<ReadonlyArray<EnvironmentLease>>([])
    const result = yield* Effect.acquireUseRelease(
      beginRun(caller),
      (run) => carryOut(run, request, place, events),
      (run, exit) =>
        Effect.flatMap(endRun(run, place.environment, exit), (leases) => Ref.set(released, leases))
    )
    for (const lease of yield* Ref.get(released)) Queue.offerUnsafe(events, { _tag: "Released", lease })
    Queue.offerUnsafe(events, { _tag: "Exited", result })
    yield* Queue.end(events)
  })

/**
 * Runs the command in a lease of its own and answers its events. Refused with `EnvironmentNotFound`, `EnvironmentDisabled`
 * and `AdministratorNeeded` before anything is begun; fails with what the acquisition, the workspace or the command fail
 * with, which may be a provider's own error object. Interrupting the stream ends the command and the lease.
 */
export const runInEnvironment = (caller: Caller, request: RunRequest) =>
  Stream.callback<RunEvent, Error, Effect.Services<ReturnType<typeof carried>>>((events) =>
    carried(caller, request, events)
  )
