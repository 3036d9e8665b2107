/**
 * Makes the proof of absence: the only place that constructs an `AbsenceProof`. What was observed is decided by
 * GuestFacts.ts; what a proof permits belongs to reclamation and registry.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type Generation, SandboxId } from "../Identity.ts"
import { AbsenceProof } from "./AbsenceProof.ts"
import { GuestObservation } from "./GuestSupervisor.ts"

/** The absence of a guest is not proved: nothing of it may be given back. Source: RG-DEL-01, RG-DEL-06. */
export class AbsenceNotProved extends Schema.TaggedError<AbsenceNotProved>()("AbsenceNotProved", {
  sandbox: SandboxId,
  state: Schema.Literals(["Running", "Paused", "Unsettled", "Uncertain"]),
  why: Schema.String
}) {
  readonly code = "absence_not_proved"
  override get message(): string {
    return `${this.sandbox} keeps its reservation, its absence is not proved: ${this.why}`
  }
}

const later = (observed: Generation, asked: Generation | undefined): Generation =>
  asked !== undefined && asked > observed ? asked : observed

/**
 * Makes the proof from an observation; anything but `Gone` is refused. A sandbox has one guest at a time, so the
 * proof covers every generation up to the observed one; `generation` names a later one whose launch was never
 * prepared. `observedAtMillis` is for people only. Source: BX-02, RG-DEL-01.
 */
export const proveAbsence = (
  sandbox: SandboxId,
  observation: GuestObservation,
  options: { readonly observedAtMillis: number; readonly generation?: Generation | undefined }
): Result.Result<AbsenceProof, AbsenceNotProved> =>
  GuestObservation.match(observation, {
    Gone: ({ evidence, exit, generation }): Result.Result<AbsenceProof, AbsenceNotProved> =>
      Result.succeed(
        new AbsenceProof({
          sandbox,
          generation: later(generation, options.generation),
          evidence,
          observedAtMillis: options.observedAtMillis,
          exit
        })
      ),
    Running: ({ identity }) =>
      refused(sandbox, "Running", `process ${identity.init.pid} is its init and runs: end it first`),
    Paused: ({ identity }) =>
      refused(sandbox, "Paused", `process ${identity.init.pid} is its init and is paused: end it first`),
    Unsettled: ({ why }) => refused(sandbox, "Unsettled", why),
    Uncertain: ({ why }) => refused(sandbox, "Uncertain", why)
  })

const refused = (sandbox: SandboxId, state: AbsenceNotProved["state"], why: string) =>
  Result.fail(new AbsenceNotProved({ sandbox, state, why }))
