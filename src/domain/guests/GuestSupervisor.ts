/**
 * Port of whoever carries guests on this machine. Every method is about one sandbox of the node registry and may
 * be repeated. What a supervisor says about life and absence comes from the kernel, never from the guest's word.
 * The order of the launch on disk, which makes a launch recoverable, is drawn in domain/reclamation/RunState.ts.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import { Generation, SandboxId } from "../Identity.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"
import { AbsenceEvidence, ExitReport, ObservedProcess, OwnedGroup } from "./AbsenceProof.ts"
import {
  type ExecutionEvent,
  type GuestCapabilities,
  type GuestCommand,
  type GuestSample,
  type GuestSignal,
  type GuestSpec,
  SupervisorKind
} from "./GuestSpec.ts"

/** Binding of a started guest, durable in identity.json before the guest's first instruction. Source: RG-RUN-02. */
export class GuestIdentity extends Schema.Class<GuestIdentity>("holdfast/GuestIdentity")({
  supervisor: SupervisorKind,
  sandbox: SandboxId,
  generation: Generation,
  runId: Schema.String,
  attemptId: Schema.String,
  bootId: Schema.String,
  monitor: ObservedProcess,
  init: ObservedProcess,
  groups: Schema.Array(OwnedGroup),
  /** Host user that the guest's processes run under. */
  userId: Schema.Int
}) {}

/** What an inspection saw. Anything that is not one of the first four is `Uncertain`, and keeps its charge. */
export const GuestObservation = Schema.TaggedUnion({
  Running: { identity: GuestIdentity },
  Paused: { identity: GuestIdentity },
  /** Absent by evidence. `tombstone` tells that the absence was already published. */
  Gone: {
    evidence: AbsenceEvidence,
    generation: Generation,
    exit: Schema.NullOr(ExitReport),
    tombstone: Schema.Boolean
  },
  /** Prepared in this boot, or half dead: something may still run. Ending it makes the case certain. */
  Unsettled: { why: Schema.String },
  /** The kernel's answers contradict the record; only an operator can tell. Source: RG-DEL-06. */
  Uncertain: { why: Schema.String }
})
export type GuestObservation = typeof GuestObservation.Type

/** The machine failed at a guest. `step` names what was done, `detail` is a sentence of ours with no guest output. */
export class GuestFailure extends Schema.TaggedError<GuestFailure>()("GuestFailure", {
  sandbox: SandboxId,
  step: Schema.String,
  detail: Schema.String
}) {
  readonly code = "guest_failure"
  override get message(): string {
    return `${this.sandbox}: ${this.step} failed: ${this.detail}`
  }
}

/** The guest is not in a state that allows the call. */
export class GuestStateRefused extends Schema.TaggedError<GuestStateRefused>()("GuestStateRefused", {
  sandbox: SandboxId,
  call: Schema.String,
  state: Schema.String
}) {
  readonly code = "invalid_guest_state"
  override get message(): string {
    return `${this.sandbox} is ${this.state}: ${this.call} is refused`
  }
}

/** This supervisor cannot do that on this machine. */
export class GuestCallUnsupported extends Schema.TaggedError<GuestCallUnsupported>()("GuestCallUnsupported", {
  call: Schema.String,
  why: Schema.String
}) {
  readonly code = "not_supported"
  override get message(): string {
    return `${this.call} is not supported here: ${this.why}`
  }
}

/** The launch was refused before anything was started: the specification names something that is not there. */
export class GuestSpecRefused extends Schema.TaggedError<GuestSpecRefused>()("GuestSpecRefused", {
  sandbox: SandboxId,
  field: Schema.String,
  why: Schema.String
}) {
  readonly code = "guest_spec_refused"
  override get message(): string {
    return `${this.sandbox}: ${this.field}: ${this.why}`
  }
}

export class GuestSupervisor extends Context.Service<
  GuestSupervisor,
  {
    readonly capabilities: GuestCapabilities
    /** Checks the parts of a specification that only this machine can judge: image and disk exist, kinds fit. */
    readonly validate: (spec: GuestSpec) => Effect.Effect<void, GuestSpecRefused>
    /**
     * Prepares, launches and waits for readiness. Repeating it for the same attempt answers the running guest's
     * identity and never makes a second guest. On failure everything of the attempt has been ended.
     */
    readonly start: (
      spec: GuestSpec
    ) => Effect.Effect<GuestIdentity, GuestFailure | GuestSpecRefused | GuestStateRefused>
    /** Reads only. */
    readonly inspect: (sandbox: SandboxId) => Effect.Effect<GuestObservation, GuestFailure>
    /**
     * The guest's agent answers. A claim about readiness, never about life. Where an earlier daemon launched the guest,
     * what that one's executions have left has been ended before this answers. Source: SP-LEASE-06.
     */
    readonly ping: (sandbox: SandboxId) => Effect.Effect<void, GuestFailure | GuestStateRefused>
    /**
     * Runs one command; interrupting the stream ends every process of that command and of no other. It is refused by
     * `GuestStateRefused` only before anything was begun.
     */
    readonly execute: (
      sandbox: SandboxId,
      command: GuestCommand
    ) => Stream.Stream<ExecutionEvent, GuestFailure | GuestStateRefused>
    readonly pause: (
      sandbox: SandboxId
    ) => Effect.Effect<void, GuestFailure | GuestStateRefused | GuestCallUnsupported>
    readonly resume: (
      sandbox: SandboxId
    ) => Effect.Effect<void, GuestFailure | GuestStateRefused | GuestCallUnsupported>
    /** Sends a signal to the guest's main command alone. Unsupported for a guest that only waits for commands. */
    readonly signal: (
      sandbox: SandboxId,
      signal: GuestSignal
    ) => Effect.Effect<void, GuestFailure | GuestStateRefused | GuestCallUnsupported>
    /** Asks the main process to end (TERM), waits the grace, then kills everything; idempotent. */
    readonly end: (
      sandbox: SandboxId,
      options: { readonly graceMillis: number }
    ) => Effect.Effect<GuestObservation, GuestFailure>
    readonly sample: (sandbox: SandboxId) => Effect.Effect<GuestSample, GuestFailure>
    /**
     * Leads a UNIX socket of mode 0600 to a TCP port of the guest's loopback, and answers the socket's path. Every call
     * looks anew: the guest runs, the socket is held by a bridge of this guest and of nobody else, and the guest's
     * bridges know the token. The same port again answers the same socket. Source: RG-RUN-01, RG-RUN-04.
     */
    readonly openPort: (
      sandbox: SandboxId,
      options: { readonly port: number; readonly token: string }
    ) => Effect.Effect<string, GuestFailure | GuestStateRefused | GuestCallUnsupported>
    /** Removes the guest's empty cgroups; absent ones count as removed. Called behind a tombstone only. */
    readonly removeGroups: (sandbox: SandboxId) => Effect.Effect<void, GuestFailure>
    /** Holds the sandbox's owner lock while the scope is open; a guest's launch and a reclamation exclude each other. */
    readonly lockOwner: (
      sandbox: SandboxId
    ) => Effect.Effect<void, GuestFailure | GuestStateRefused, Scope.Scope>
  }
>()("holdfast/domain/guests/GuestSupervisor") {
  declare readonly [OutsideTransaction]: true
}
