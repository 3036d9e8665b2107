/** Port of the backups of native runners: whether the one that a stamp names is there, whole, and this lease's. Source: RL-BACKUP-04. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"

export class HarnessBackups extends Context.Service<
  HarnessBackups,
  {
    /**
     * Reads the backup from disk again and holds it against the stamp (`metadata.nativeHarnessBackup`), the provider lease
     * id, the session and the runner instance. Anything that does not fit, or cannot be read, is false.
     */
    readonly verifies: (stamp: unknown, providerLeaseId: string) => Effect.Effect<boolean>
  }
>()("holdfast/domain/runLeases/HarnessBackups") {
  declare readonly [OutsideTransaction]: true
}
