/**
 * A native runner keeps its session in the sandbox: it is not destroyed before its backup is proved whole.
 * Source: RL-BACKUP-01, U23.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import { reuseStampOf } from "../environments/reuseMatch.ts"
import { nativeRunnerAdapter } from "../work/Work.ts"
import { HarnessBackups } from "./HarnessBackups.ts"
import { RunnerHarnessBackupUnavailable } from "./RunLeaseErrors.ts"

const isNative = (lease: EnvironmentLease): boolean =>
  Option.exists(reuseStampOf(lease), ({ adapterType }) => adapterType === nativeRunnerAdapter)

/** Refuses with `RunnerHarnessBackupUnavailable` where what would be lost is not proved to be kept. */
export const requireBackup = Effect.fn("runLeases.requireBackup")(function* (lease: EnvironmentLease) {
  if (!isNative(lease)) return
  const isVerified = yield* HarnessBackups.use((backups) =>
    backups.verifies(lease.metadata["nativeHarnessBackup"], lease.providerLeaseId ?? "")
  )
  if (!isVerified) return yield* new RunnerHarnessBackupUnavailable({ lease: lease.id })
})
