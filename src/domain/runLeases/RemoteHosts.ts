/**
 * Port of commands on another machine over SSH. The client's own exit code proves nothing, since 255 is its word for
 * everything; what a command came to is known only from marks that the remote side printed around it.
 * Source: RL-SSH-01, guests over OpenSSH.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type { EnvironmentLeaseId } from "../Identity.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"
import type { CommandResult } from "../providers/BuiltInProviders.ts"
import type { LogSink } from "../providers/ProviderWorkers.ts"

export interface RemoteHost {
  readonly host: string
  readonly port: number
  readonly username: string
  readonly privateKey: Redacted.Redacted
  /** Lines of a known_hosts file, or null. */
  readonly knownHosts: string | null
  readonly strictHostKeyChecking: boolean
}

export interface RemoteCommand {
  readonly lease: EnvironmentLeaseId
  readonly argv: readonly [string, ...ReadonlyArray<string>]
  /** Made when it is not there. */
  readonly workingDirectory: string
  readonly environment: { readonly [name: string]: string }
  readonly standardInput: Uint8Array | null
  readonly timeoutMillis: number
  readonly logSink?: LogSink
}

/** The host was not reached, or did not let us in: nothing was begun. */
export class RemoteHostRefused extends Data.TaggedError("RemoteHostRefused")<{
  readonly host: string
  readonly why: "unreachable" | "host_key" | "authentication" | "key_unusable" | "folder" | "no_known_hosts"
}> {
  readonly code = "remote_host_refused"
  override get message(): string {
    const what = {
      unreachable: "it does not answer on that port: see whether it runs and may be reached",
      host_key: "its host key is not the known one: compare it, then update knownHosts",
      authentication: "it does not accept the user's key: see to its authorized keys",
      key_unusable:
        "the private key is none that the SSH client takes: store it again, unencrypted and with its last line",
      folder: "the remote workspace cannot be made or entered by that user",
      no_known_hosts: "strict checking of its host key needs knownHosts: give them, or switch it off"
    }
    return `${this.host} was not used: ${what[this.why]}`
  }
}

/** The connection broke after the command had begun: it may have ended in any way, and its processes may live on. */
export class RemoteOutcomeUnknown extends Data.TaggedError("RemoteOutcomeUnknown")<{
  readonly host: string
}> {
  readonly code = "remote_outcome_unknown"
  override get message(): string {
    return `the connection to ${this.host} broke while the command ran: what became of it is not known; releasing the lease ends what is left of it`
  }
}

/** Processes of the lease live on at the host, or nobody could look. The lease stays owed. */
export class RemoteProcessesRemain extends Data.TaggedError("RemoteProcessesRemain")<{
  readonly host: string
  readonly processes: number
}> {
  readonly code = "remote_processes_remain"
  override get message(): string {
    return `${this.processes} processes of the lease could not be ended at ${this.host}: see what holds them, then release it again`
  }
}

export class RemoteHosts extends Context.Service<
  RemoteHosts,
  {
    /** Runs the command to its end. When its time is over, or the caller leaves, its remote processes are ended. */
    readonly run: (
      host: RemoteHost,
      command: RemoteCommand
    ) => Effect.Effect<CommandResult, RemoteHostRefused | RemoteOutcomeUnknown>
    /** Ends every process that the lease has at the host, whoever started it, and answers once none is left. */
    readonly endAll: (
      host: RemoteHost,
      lease: EnvironmentLeaseId
    ) => Effect.Effect<void, RemoteHostRefused | RemoteOutcomeUnknown | RemoteProcessesRemain>
  }
>()("holdfast/domain/runLeases/RemoteHosts") {
  declare readonly [OutsideTransaction]: true
}
