/** What a builder of an environment runtime may choose. Source: RL section 3.6. */
import * as Context from "effect/Context"
import {
  orphanWritePauseMillisDefault,
  providerWorkerReadyMillisDefault,
  providerWorkerReadyPollMillisDefault,
  resumeAttemptMillisDefault
} from "../Bounds.ts"

export interface RuntimeSettingsShape {
  /** How long an acquisition waits for a provider's worker; 0 is one look without waiting. */
  readonly providerWorkerReadyMillis: number
  readonly providerWorkerReadyPollMillis: number
  /** How long a resume that fails is tried again; 0 is one try. Source: RL U1. */
  readonly resumeAttemptMillis: number
  /** Pause between tries to write an orphan's row; 0 is at once. */
  readonly pendingCleanupWritePauseMillis: number
  /** Label that tells this installation's resources from another's, at every provider. Source: BX-01, FC-03. */
  readonly installation: string
}

export const RuntimeSettings = Context.Reference<RuntimeSettingsShape>(
  "holdfast/domain/runLeases/RuntimeSettings",
  {
    defaultValue: () => ({
      providerWorkerReadyMillis: providerWorkerReadyMillisDefault,
      providerWorkerReadyPollMillis: providerWorkerReadyPollMillisDefault,
      resumeAttemptMillis: resumeAttemptMillisDefault,
      pendingCleanupWritePauseMillis: orphanWritePauseMillisDefault,
      installation: "holdfast"
    })
  }
)
