/**
 * A creation that failed and may have left something behind. The provider's evidence is believed by its content and its
 * scope: a row that owes the cleanup comes first, then the provider is asked to observe and destroy. Only a proved cleanup
 * changes the error that the caller gets. Source: RL section 4.9.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { creationEvidenceIn, storedEvidence } from "../environments/creationEvidence.ts"
import type { Acquisition } from "./EnvironmentDriver.ts"
import { disposeOrphan } from "./orphans.ts"
import type { OrphanSeed } from "./provisioning.ts"
import { SandboxCreationCleaned } from "./RunLeaseErrors.ts"

/**
 * What the caller of the failed acquisition gets: the very same error, unless what was allocated is proved gone. Evidence
 * of another tenant, environment or run, or one that cannot be read, has no effect at all. Source: RL-CREATE-05, -06, -09.
 */
export const cleanUncertainCreation = Effect.fn("runLeases.cleanUncertainCreation")(function* (
  { environment, run, tenant }: Acquisition,
  error: Error,
  { seed, values }: { readonly seed: OrphanSeed; readonly values: ReadonlyArray<Redacted.Redacted> }
) {
  const evidence = creationEvidenceIn(error, { tenant, environment: environment.id, run })
  if (Option.isNone(evidence)) return error
  const orphan = {
    ...seed,
    providerLeaseId: evidence.value.providerLeaseId,
    metadata: { ...seed.metadata, ...storedEvidence(evidence.value) },
    failureReason: "creation_uncertain"
  }
  const fate = yield* disposeOrphan(orphan, values)
  return fate === "gone" ? new SandboxCreationCleaned({ cause: error }) : error
})
