/**
 * What a guest is asked to be, and what a supervisor can carry. Plain data: whether a request is sensible is
 * decided at admission, whether this machine can carry it by the supervisor's probed capabilities.
 */
import * as Schema from "effect/Schema"
import { Generation, SandboxId } from "../Identity.ts"

/** Names by which a user may ask for a supervisor. `auto` takes the strongest that the probe found. */
export const SupervisorKind = Schema.Literals(["bubblewrap", "unshare", "scripted"])
export type SupervisorKind = typeof SupervisorKind.Type

export class GuestSpec extends Schema.Class<GuestSpec>("holdfast/GuestSpec")({
  sandbox: SandboxId,
  generation: Generation,
  /** Which run of the sandbox, and which attempt at that run: both uuids, written into run.json. Source: RG-RUN. */
  runId: Schema.String,
  attemptId: Schema.String,
  /** `host` shares the machine's own /usr read-only; else an absolute path of a root file system. */
  image: Schema.String,
  /** Main command of the guest. Empty: the guest only runs its agent and waits for commands. */
  argv: Schema.Array(Schema.String),
  /** Durable environment of every command. Secret: never in an argv, a log, a span or an answer. Source: RG-REC-02. */
  environment: Schema.Record(Schema.String, Schema.String),
  cpuMillis: Schema.Int,
  memoryBytes: Schema.Int,
  processesMax: Schema.Int,
  /** Host directory mounted at /workspace, owned by somebody else; null: private run storage of the sandbox. */
  disk: Schema.NullOr(Schema.String)
}) {}

/** What a supervisor can do on this machine. Probed by a real run, never assumed. */
export class GuestCapabilities extends Schema.Class<GuestCapabilities>("holdfast/GuestCapabilities")({
  supervisor: SupervisorKind,
  isolation: Schema.Literals(["none", "namespaces", "vm", "remote"]),
  limits: Schema.Literals(["cgroup", "none"]),
  pause: Schema.Boolean,
  /** Whether a guest goes on when the daemon dies. */
  survivesDaemon: Schema.Boolean,
  /** Whether each guest has a host user of its own. False where the daemon is not root. */
  privateUser: Schema.Boolean,
  seccomp: Schema.Boolean,
  /** Whether a port of the guest can be reached by a socket of the host. */
  ports: Schema.Boolean,
  proof: Schema.Literals(["cgroup", "process"])
}) {}

/** One command in a running guest. */
export class GuestCommand extends Schema.Class<GuestCommand>("holdfast/GuestCommand")({
  argv: Schema.NonEmptyArray(Schema.String),
  environment: Schema.Record(Schema.String, Schema.String),
  /** Absolute path inside the guest. */
  workingDirectory: Schema.String,
  /** Bytes for standard input, given whole; null: an empty standard input. */
  standardInput: Schema.NullOr(Schema.Uint8Array),
  timeoutMillis: Schema.Int
}) {}

/** Signals that may be sent to a guest's main command. Stopping and continuing it is what pause and resume are for. */
export const GuestSignal = Schema.Literals(["HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM"])
export type GuestSignal = typeof GuestSignal.Type

/** What a command in a guest tells, in order. `Exited` is the last event, exactly once. */
export const ExecutionEvent = Schema.TaggedUnion({
  Output: { stream: Schema.Literals(["stdout", "stderr"]), bytes: Schema.Uint8Array },
  /** Output passed its bound and the rest was dropped. At most once a stream. */
  Truncated: { stream: Schema.Literals(["stdout", "stderr"]), bytesMax: Schema.Int },
  Exited: {
    /** 128 + n for a command ended by signal n. */
    exitCode: Schema.Int,
    ended: Schema.Literals(["exited", "timeout", "cancelled"])
  }
})
export type ExecutionEvent = typeof ExecutionEvent.Type

/** One reading of a guest's figures. `null` where nothing could be measured; a figure is never invented. */
export class GuestSample extends Schema.Class<GuestSample>("holdfast/GuestSample")({
  cpuMicros: Schema.NullOr(Schema.Int),
  memoryBytes: Schema.NullOr(Schema.Int),
  memoryPeakBytes: Schema.NullOr(Schema.Int),
  diskBytes: Schema.NullOr(Schema.Int),
  ioReadBytes: Schema.NullOr(Schema.Int),
  ioWriteBytes: Schema.NullOr(Schema.Int),
  processes: Schema.NullOr(Schema.Int)
}) {}
