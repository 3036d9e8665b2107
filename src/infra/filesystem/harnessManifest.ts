/**
 * The two records of a backup of a native runner: the manifest, which lies in the backup and lists its files, and the
 * stamp, which a lease's metadata carries. Layout below the runners' state directory:
 *
 *     <sha256 of the session scope id>/failover-backups/current/
 *       manifest.json                       what was backed up, of which session, runner and lease, and every file's digest
 *       runner/runner-state.json
 *       agent-home/sessions/thread.jsonl
 *
 * Source: RL-BACKUP-04.
 */
import { hash } from "node:crypto"
import * as Path from "node:path"
import * as Schema from "effect/Schema"

const Digest = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/))
const Moment = Schema.String.check(Schema.isPattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/))
const Text = Schema.NonEmptyString

/** Whose work is in the backup, and how its session goes on. */
export const BackedUpExecution = Schema.Struct({
  provider: Schema.Struct({
    kind: Text,
    model: Schema.NullOr(Schema.String),
    approvalPolicy: Schema.NullOr(Schema.String)
  }),
  binding: Schema.Struct({
    tenantId: Text,
    runId: Text,
    taskId: Schema.NullOr(Schema.String),
    agentId: Text,
    executionWorkspaceId: Schema.NullOr(Schema.String)
  }),
  workspace: Schema.Struct({
    cwd: Text,
    repoUrl: Schema.NullOr(Schema.String),
    repoRef: Schema.NullOr(Schema.String),
    branchName: Schema.NullOr(Schema.String)
  }),
  session: Schema.Struct({
    normalizedSessionId: Text,
    driverKind: Text,
    protocolVersion: Schema.Literal(1),
    lifecyclePolicy: Schema.Struct({ mode: Text, idleTimeoutMs: Schema.NullOr(Schema.Number) })
  })
})
export type BackedUpExecution = typeof BackedUpExecution.Type

export const ProviderSessionIdentity = Schema.Struct({
  providerSessionId: Schema.NullOr(Schema.String),
  providerBackendSessionId: Schema.NullOr(Schema.String),
  providerSessionIdentity: Schema.NullOr(Schema.String)
})
export type ProviderSessionIdentity = typeof ProviderSessionIdentity.Type

/** A file of the backup: its path below the backup's folder, with `/`, and what it must be. */
export const BackedUpFile = Schema.Struct({
  path: Text,
  bytes: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  sha256: Digest
})
export type BackedUpFile = typeof BackedUpFile.Type

export const HarnessManifest = Schema.Struct({
  schema: Schema.Literal("holdfast.native-harness-backup/v1"),
  execution: BackedUpExecution,
  runnerInstanceId: Text,
  providerSessionIdentity: ProviderSessionIdentity,
  /** The lease that the backup was taken from. */
  sourceProviderLeaseId: Text,
  files: Schema.Array(BackedUpFile),
  completedAt: Moment
})
export type HarnessManifest = typeof HarnessManifest.Type

/** What a lease carries as `nativeHarnessBackup`. */
export const HarnessBackupStamp = Schema.Struct({
  manifestPath: Text,
  /** Digest of the manifest, which has the digests of all else. */
  manifestSha256: Digest,
  sessionScopeId: Text,
  /** The one lease that may be replaced or destroyed because of this backup. */
  authorizedProviderLeaseId: Text,
  normalizedSessionId: Text,
  runnerInstanceId: Text,
  completedAt: Moment
})
export type HarnessBackupStamp = typeof HarnessBackupStamp.Type

export const manifestName = "manifest.json"

/** Without these two nothing could go on from the backup. */
export const requiredFiles: ReadonlyArray<string> = [
  "runner/runner-state.json",
  "agent-home/sessions/thread.jsonl"
]

/** Folders from the root to the backup of a session. */
export const backupFolders = (sessionScopeId: string): ReadonlyArray<string> => [
  hash("sha256", sessionScopeId),
  "failover-backups",
  "current"
]

export const backupRootOf = (root: string, sessionScopeId: string): string =>
  Path.join(root, ...backupFolders(sessionScopeId))
