/**
 * Proof that a guest is gone, as a type: what gives a reservation back takes an `AbsenceProof` and nothing else.
 * A proof is made only by `proveAbsence` in this folder, from facts that a supervisor observed, or read back from
 * a tombstone that such a proof was written into. Source: BX-02, RG-DEL-04, RG-DEL-06.
 */
import * as Schema from "effect/Schema"
import { Generation, SandboxId } from "../Identity.ts"

/** A process that cannot be taken for a later one on the same boot. */
export const ObservedProcess = Schema.Struct({
  pid: Schema.Int.check(Schema.isGreaterThan(0)),
  startTicks: Schema.String
})
export type ObservedProcess = typeof ObservedProcess.Type

/** A cgroup folder with its inode: a folder made again under the same name is another group. */
export const OwnedGroup = Schema.Struct({ path: Schema.String, inode: Schema.String })
export type OwnedGroup = typeof OwnedGroup.Type

/**
 * What proves the absence.
 * - `GroupsEmpty`: same boot, every recorded cgroup is the same one and holds no process, init is not alive.
 * - `InitGone`: same boot, no cgroup was ever owned, init is not alive and no process sees the guest's mounts.
 * - `BootChanged`: the machine has booted since; nothing of that boot can be alive.
 * - `NeverStarted`: no launch was ever prepared for this sandbox on this node.
 */
export const AbsenceEvidence = Schema.TaggedUnion({
  GroupsEmpty: { groups: Schema.Array(OwnedGroup), init: Schema.NullOr(ObservedProcess) },
  InitGone: { init: Schema.NullOr(ObservedProcess) },
  BootChanged: { recordedBootId: Schema.String, observedBootId: Schema.String },
  NeverStarted: {}
})
export type AbsenceEvidence = typeof AbsenceEvidence.Type

/** How the guest ended, where that was seen. `exitCode` is 128 + n for a guest ended by signal n. */
export const ExitReport = Schema.Struct({ exitCode: Schema.NullOr(Schema.Int) })
export type ExitReport = typeof ExitReport.Type

declare const ProvedByObservation: unique symbol

export class AbsenceProof extends Schema.Class<AbsenceProof>("holdfast/AbsenceProof")({
  sandbox: SandboxId,
  generation: Generation,
  evidence: AbsenceEvidence,
  /** Milliseconds since the epoch by the node's clock, for people; nothing is decided by it. */
  observedAtMillis: Schema.Int,
  exit: Schema.NullOr(ExitReport)
}) {
  declare readonly [ProvedByObservation]: true
}

/** One sentence for people: what was seen, and for which guest. */
export const describeProof = (proof: AbsenceProof): string => {
  const guest = `${proof.sandbox} generation ${proof.generation}`
  return AbsenceEvidence.match(proof.evidence, {
    GroupsEmpty: ({ groups, init }) =>
      `${guest}: ${groups.length} cgroups are the recorded ones and empty${init === null ? "" : `, init ${init.pid} (start ${init.startTicks}) is gone`}`,
    InitGone: ({ init }) =>
      `${guest}: ${init === null ? "no init was ever recorded" : `init ${init.pid} (start ${init.startTicks}) is gone`}, and no process sees its mounts`,
    BootChanged: ({ recordedBootId, observedBootId }) =>
      `${guest}: the machine has booted since (boot ${recordedBootId.slice(0, 8)} to ${observedBootId.slice(0, 8)})`,
    NeverStarted: () => `${guest}: no launch was ever prepared`
  })
}
