/**
 * Port of commands that a run has carried out on this machine itself, without a guest around them: trusted work. Whatever
 * such a command starts belongs to its lease and ends with it, also when the daemon that started it is gone.
 * Source: RL-ACQ-01.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type { EnvironmentLeaseId } from "../Identity.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"
import type { CommandResult } from "../providers/BuiltInProviders.ts"
import type { LogSink } from "../providers/ProviderWorkers.ts"

export interface LocalCommand {
  readonly argv: readonly [string, ...ReadonlyArray<string>]
  readonly workingDirectory: string
  readonly environment: { readonly [name: string]: string }
  readonly standardInput: string | null
  readonly timeoutMillis: number
  readonly logSink?: LogSink
}

/** The command was not begun: its program or its folder is not there, or the machine takes no more processes. */
export class LocalCommandRefused extends Data.TaggedError("LocalCommandRefused")<{
  readonly why: "program" | "folder" | "machine"
}> {
  readonly code = "local_command_refused"
  override get message(): string {
    const what = {
      program: "there is no such program that the daemon's user may run",
      folder: "its working directory is not there",
      machine: "the machine takes no more processes"
    }
    return `the command was not started: ${what[this.why]}`
  }
}

/** Processes of the lease live on although they were killed: the lease stays owed. */
export class LocalProcessesRemain extends Data.TaggedError("LocalProcessesRemain")<{
  readonly lease: EnvironmentLeaseId
  readonly processes: number
}> {
  readonly code = "local_processes_remain"
  override get message(): string {
    return `${this.processes} processes of lease ${this.lease} could not be ended: see what holds them, then release it again`
  }
}

export class LocalCommands extends Context.Service<
  LocalCommands,
  {
    /**
     * Runs the command to its end, in a process group and, where the machine lets the daemon, a cgroup of the lease. Ends all
     * that it started when its time is over or the caller leaves; then `timedOut`, or an interruption.
     */
    readonly run: (
      lease: EnvironmentLeaseId,
      command: LocalCommand
    ) => Effect.Effect<CommandResult, LocalCommandRefused>
    /** Ends every process of the lease, of this daemon or a former one, and answers once none is left. */
    readonly endAll: (lease: EnvironmentLeaseId) => Effect.Effect<void, LocalProcessesRemain>
  }
>()("holdfast/domain/runLeases/LocalCommands") {
  declare readonly [OutsideTransaction]: true
}
