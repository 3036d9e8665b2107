/**
 * How far an acquisition came before it failed, for people. Only a genuine error of a worker whose evidence passed the
 * scope check is believed, and only phases on a closed list, so that no text of a provider's gets in.
 * Source: RL-CREATE-07, RL section 2.3, U3.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { errorCausesReadMax } from "../Bounds.ts"
import type { EnvironmentId, RunId, TenantId } from "../Identity.ts"
import { ProviderRpcError } from "../providers/ProviderWorkers.ts"
import { acquisitionDiagnosticIn, creationEvidenceIn } from "./creationEvidence.ts"

const Diagnostic = Schema.Struct({
  phase: Schema.Literals(["request", "create", "start", "shell", "ready"]),
  elapsedMs: Schema.Natural,
  budgetMs: Schema.Natural
})

/** What `execution` of a run's result gets. */
export interface AcquisitionDiagnostics {
  readonly environmentAcquisitionPhase: string
  readonly environmentAcquisitionElapsedMs: number
  readonly environmentAcquisitionBudgetMs: number
}

const decodeDiagnostic = Schema.decodeUnknownOption(Diagnostic)

/** The error and what it says was its cause, and so on; a circle ends at the bound. */
const chainOf = (error: unknown): ReadonlyArray<unknown> => {
  const chain: Array<unknown> = []
  let next = error
  while (next !== undefined && next !== null && chain.length < errorCausesReadMax) {
    chain.push(next)
    next = typeof next === "object" && "cause" in next ? next.cause : undefined
  }
  return chain
}

/** The diagnostics of a failed acquisition, or none. */
export const acquisitionDiagnosticsOf = (
  error: unknown,
  scope: { readonly tenant: TenantId; readonly environment: EnvironmentId; readonly run: RunId }
): Option.Option<AcquisitionDiagnostics> => {
  const genuine = chainOf(error).find((each) => each instanceof ProviderRpcError)
  return creationEvidenceIn(genuine, scope).pipe(
    Option.flatMap(() => decodeDiagnostic(acquisitionDiagnosticIn(genuine))),
    Option.map(({ budgetMs, elapsedMs, phase }) => ({
      environmentAcquisitionPhase: phase,
      environmentAcquisitionElapsedMs: elapsedMs,
      environmentAcquisitionBudgetMs: budgetMs
    }))
  )
}
