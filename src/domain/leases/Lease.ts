/**
 * The execution lease: it says that something runs inside a runtime's guest now. Here are its model, the marker of
 * its cancellation, and what it shares with the claim of a repository: what counts as evidence that the work has ended,
 * and why it can no longer be used. Who writes it: execution.ts.
 */
import * as Schema from "effect/Schema"
import { executionLabelCharactersMax } from "../Bounds.ts"
import { AbsenceProof } from "../guests/AbsenceProof.ts"
import { Generation, LeaseId, ProjectId, SandboxId } from "../Identity.ts"
import { RuntimeObserved } from "../runtimes/Runtime.ts"

/** How far a cancellation has come. It only ever moves to the right. Source: SP-LEASE-05. */
export const CancelMarker = Schema.Literals(["none", "requested", "verified"])
export type CancelMarker = typeof CancelMarker.Type

const markerOrder: Readonly<Record<CancelMarker, number>> = { none: 0, requested: 1, verified: 2 }

/** The one of two markers that has come further: what is known from two sources never goes back. */
export const furtherMarker = (one: CancelMarker, other: CancelMarker): CancelMarker =>
  markerOrder[one] >= markerOrder[other] ? one : other

/** The command's first word, never its arguments or environment: one word with no `=` in it, 1 to 100 characters. */
export const ExecutionLabel = Schema.String.check(
  Schema.isPattern(new RegExp(`^[^\\s=\\p{Cc}]{1,${executionLabelCharactersMax}}$`, "u"))
).pipe(Schema.brand("ExecutionLabel"))
export type ExecutionLabel = typeof ExecutionLabel.Type

/** The label of a command. A first word that could carry more than a name is called `command`. */
export const labelOfCommand = (argv: readonly [string, ...ReadonlyArray<string>]): ExecutionLabel => {
  const word = Array.from(argv[0]).slice(0, executionLabelCharactersMax).join("")
  return ExecutionLabel.make(Schema.is(ExecutionLabel)(word) ? word : "command")
}

/** A lease as its holder knows it. `process` is the written form of the holder's identity. */
export class Lease extends Schema.Class<Lease>("holdfast/Lease")({
  id: LeaseId,
  project: ProjectId,
  generation: Generation,
  /** The guest in which it is run. */
  sandbox: SandboxId,
  process: Schema.String,
  label: ExecutionLabel
}) {}

/** A lease as a reader found it in the table. Its age is counted by the database's clock. Source: FC-11. */
export class ObservedLease extends Schema.Class<ObservedLease>("holdfast/ObservedLease")({
  id: LeaseId,
  project: ProjectId,
  generation: Generation,
  sandbox: SandboxId,
  process: Schema.String,
  label: Schema.String,
  cancel: CancelMarker,
  admittedAtMillis: Schema.Int,
  heartbeatAgeMillis: Schema.Int
}) {}

/** Whether the holder has been silent for longer than its term. Silence alone is no proof of death. */
export const isExpired = (observed: { readonly heartbeatAgeMillis: number }, termSeconds: number): boolean =>
  observed.heartbeatAgeMillis > termSeconds * 1_000

/**
 * What proves that the processes of an execution are gone.
 * - `Exited`: the supervisor's last event of that very command.
 * - `GuestGone`: the whole guest is absent, by proof.
 * - `NeverStarted`: the command was never handed to a guest.
 */
export const ExecutionEvidence = Schema.TaggedUnion({
  Exited: { ended: Schema.Literals(["exited", "timeout", "cancelled"]) },
  GuestGone: { proof: AbsenceProof },
  NeverStarted: {}
})
export type ExecutionEvidence = typeof ExecutionEvidence.Type

/** The guest that something runs in, and its machine's generation. */
export interface GuestPlace {
  readonly sandbox: SandboxId
  readonly generation: Generation
}

/** Whether the evidence is about this place: a proof of another guest or generation proves nothing here. */
export const provesEnded = (place: GuestPlace, evidence: ExecutionEvidence): boolean =>
  ExecutionEvidence.match(evidence, {
    Exited: () => true,
    GuestGone: ({ proof }) => proof.sandbox === place.sandbox && proof.generation === place.generation,
    NeverStarted: () => true
  })

/**
 * Why a lease can no longer be used.
 * - `expired`: its term is over by the holder's own monotonic clock, or by the database's.
 * - `absent`: its row is gone and was not restored. `successor`: another process holds it.
 * - `generation`: the machine was replaced. `cancelled`: its cancellation was asked for. `settled`: its holder ended it.
 */
export const LeaseLostReason = Schema.Literals([
  "expired",
  "absent",
  "successor",
  "generation",
  "cancelled",
  "settled"
])
export type LeaseLostReason = typeof LeaseLostReason.Type

/** Nothing may be started under this lease any more. Source: SP-LEASE-07, FC-11. */
export class LeaseLost extends Schema.TaggedError<LeaseLost>()("LeaseLost", {
  lease: LeaseId,
  reason: LeaseLostReason
}) {
  readonly code = "lease_lost"
  override get message(): string {
    return `lease ${this.lease} can no longer be used (${this.reason}): ask for a new one`
  }
}

/** No lease of that id is in the table. */
export class LeaseNotFound extends Schema.TaggedError<LeaseNotFound>()("LeaseNotFound", { lease: LeaseId }) {
  readonly code = "lease_not_found"
  override get message(): string {
    return `lease ${this.lease} does not exist: its execution has ended or never was`
  }
}

/** The Project has as many lease rows as it may have: executions, and marks of cancelled ones. Source: FC-15. */
export class LeasesFull extends Schema.TaggedError<LeasesFull>()("LeasesFull", {
  project: ProjectId,
  leasesMax: Schema.Int
}) {
  readonly code = "leases_full"
  override get message(): string {
    return `project ${this.project} has ${this.leasesMax} executions and marks of cancelled ones, as many as it may have: marks go a day after their cancellation, or with the machine`
  }
}

/** Something should run in a runtime that is not running. */
export class RuntimeNotRunning extends Schema.TaggedError<RuntimeNotRunning>()("RuntimeNotRunning", {
  project: ProjectId,
  state: RuntimeObserved
}) {
  readonly code = "runtime_not_running"
  override get message(): string {
    return `the runtime of project ${this.project} is ${this.state}: start it and ask again`
  }
}
