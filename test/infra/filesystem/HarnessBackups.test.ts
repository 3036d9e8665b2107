import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import { hash } from "node:crypto"
import { HarnessBackups } from "../../../src/domain/runLeases/HarnessBackups.ts"
import {
  layer,
  layerFromEnvironment,
  runnerStateVariable,
  stampHarnessBackup,
  writeHarnessManifest
} from "../../../src/infra/filesystem/HarnessBackups.ts"
import {
  backupRootOf,
  type HarnessBackupStamp,
  type HarnessManifest
} from "../../../src/infra/filesystem/harnessManifest.ts"
import { temporaryDirectory } from "../../domain/registry/fixture.ts"

const providerLeaseId = "reusable-plugin-lease"
const sessionScopeId = "scope-1"
const normalizedSessionId = "session-1"
const runnerInstanceId = "runner-1"
const completedAt = "2026-11-30T12:00:00.000Z"

const execution: HarnessManifest["execution"] = {
  provider: { kind: "agent", model: "model-1", approvalPolicy: "never" },
  binding: { tenantId: "t", runId: "r", taskId: null, agentId: "a", executionWorkspaceId: "w" },
  workspace: { cwd: "/workspace", repoUrl: null, repoRef: null, branchName: null },
  session: {
    normalizedSessionId,
    driverKind: "agent_app_server",
    protocolVersion: 1,
    lifecyclePolicy: { mode: "per_turn", idleTimeoutMs: null }
  }
}

const put = (path: string, text: string): void => {
  Files.mkdirSync(Path.dirname(path), { recursive: true, mode: 0o700 })
  Files.writeFileSync(path, text, { mode: 0o600 })
}

interface Backup {
  readonly root: string
  readonly backupRoot: string
  readonly stamp: HarnessBackupStamp
}

/** A backup as the native runner leaves it: its files, then the manifest, then the stamp. */
const makeBackup = Effect.gen(function* () {
  const root = yield* temporaryDirectory
  const backupRoot = backupRootOf(root, sessionScopeId)
  put(Path.join(backupRoot, "runner/runner-state.json"), '{"turn":3}')
  put(Path.join(backupRoot, "agent-home/sessions/thread.jsonl"), '{"line":1}\n'.repeat(20_000))
  put(Path.join(backupRoot, "agent-home/settings.toml"), "a = 1\n")
  const stamp = yield* Effect.promise(async (): Promise<HarnessBackupStamp> => {
    const { manifest, manifestPath } = await writeHarnessManifest({
      backupRoot,
      execution,
      runnerInstanceId,
      providerSessionIdentity: {
        providerSessionId: "p",
        providerBackendSessionId: null,
        providerSessionIdentity: null
      },
      sourceProviderLeaseId: providerLeaseId,
      completedAt
    })
    return stampHarnessBackup({
      manifestPath,
      sessionScopeId,
      authorizedProviderLeaseId: providerLeaseId,
      normalizedSessionId,
      runnerInstanceId,
      completedAt: manifest.completedAt
    })
  })
  const backup: Backup = { root, backupRoot, stamp }
  return backup
})

const verifies = (root: string, stamp: unknown, lease = providerLeaseId) =>
  HarnessBackups.use((backups) => backups.verifies(stamp, lease)).pipe(Effect.provide(layer({ root })))

const file = ({ backupRoot }: Backup, path: string): string => Path.join(backupRoot, path)

/** Writes the manifest anew with changes, and the stamp after it, as somebody would who wants to be believed. */
const forge = (backup: Backup, change: (manifest: HarnessManifest) => object): HarnessBackupStamp => {
  const manifest = JSON.parse(Files.readFileSync(backup.stamp.manifestPath, "utf8")) as HarnessManifest
  const text = JSON.stringify({ ...manifest, ...change(manifest) })
  Files.writeFileSync(backup.stamp.manifestPath, text)
  return { ...backup.stamp, manifestSha256: hash("sha256", text) }
}

const spoilt: ReadonlyArray<readonly [what: string, spoil: (backup: Backup) => unknown]> = [
  ["a file with other bytes", (b) => Files.writeFileSync(file(b, "runner/runner-state.json"), '{"turn":4}')],
  ["a longer file", (b) => Files.appendFileSync(file(b, "agent-home/sessions/thread.jsonl"), "more\n")],
  ["a file less", (b) => Files.rmSync(file(b, "agent-home/settings.toml"))],
  ["a file more", (b) => put(file(b, "agent-home/extra"), "x")],
  ["no thread", (b) => Files.rmSync(file(b, "agent-home/sessions/thread.jsonl"))],
  ["no manifest", (b) => Files.rmSync(b.stamp.manifestPath)],
  ["another manifest than the stamped one", (b) => void forge(b, () => ({ completedAt }))],
  ["a manifest that is no JSON", (b) => Files.writeFileSync(b.stamp.manifestPath, "{")],
  [
    "a file that is a link to the same bytes",
    (b) => {
      const outside = Path.join(b.root, "outside")
      Files.renameSync(file(b, "runner/runner-state.json"), outside)
      Files.symlinkSync(outside, file(b, "runner/runner-state.json"))
    }
  ],
  [
    "a folder that is a link",
    (b) => {
      Files.renameSync(file(b, "runner"), Path.join(b.root, "runner"))
      Files.symlinkSync(Path.join(b.root, "runner"), file(b, "runner"))
    }
  ],
  [
    "a session's folder that is a link",
    (b) => {
      const session = Path.dirname(Path.dirname(b.backupRoot))
      Files.renameSync(session, Path.join(b.root, "elsewhere"))
      Files.symlinkSync(Path.join(b.root, "elsewhere"), session)
    }
  ],
  ["a file that others may write", (b) => Files.chmodSync(file(b, "runner/runner-state.json"), 0o622)],
  ["a folder that others may write", (b) => Files.chmodSync(file(b, "agent-home"), 0o777)]
]

type Stamped = (stamp: HarnessBackupStamp, backup: Backup) => unknown

const foreign: ReadonlyArray<readonly [what: string, stamped: Stamped, lease: string]> = [
  ["no stamp", () => undefined, providerLeaseId],
  ["a stamp of another form", (stamp) => ({ ...stamp, manifestSha256: undefined }), providerLeaseId],
  ["another lease than the authorized one", (stamp) => stamp, "another-lease"],
  [
    "a stamp for another lease than the manifest's",
    (stamp) => ({ ...stamp, authorizedProviderLeaseId: "another-lease" }),
    "another-lease"
  ],
  [
    "a stamp that authorizes another lease",
    (stamp) => ({ ...stamp, authorizedProviderLeaseId: "another-lease" }),
    providerLeaseId
  ],
  ["another session", (stamp) => ({ ...stamp, normalizedSessionId: "session-2" }), providerLeaseId],
  ["another session's folder", (stamp) => ({ ...stamp, sessionScopeId: "scope-2" }), providerLeaseId],
  ["another runner instance", (stamp) => ({ ...stamp, runnerInstanceId: "runner-2" }), providerLeaseId],
  ["another completion", (stamp) => ({ ...stamp, completedAt: "2026-11-30T12:00:01.000Z" }), providerLeaseId],
  [
    "a manifest that lies elsewhere",
    (stamp, { root }) => ({ ...stamp, manifestPath: Path.join(root, "manifest.json") }),
    providerLeaseId
  ],
  [
    "a manifest that takes an unlisted file for listed",
    (_, backup) => forge(backup, ({ files }) => ({ files: files.slice(1) })),
    providerLeaseId
  ],
  [
    "a manifest that lists a file outside",
    (_, backup) =>
      forge(backup, ({ files }) => ({
        files: [...files, { path: "../../outside", bytes: 1, sha256: "a".repeat(64) }]
      })),
    providerLeaseId
  ],
  [
    "a backup without a runner's state, listed or not",
    (_, backup) => {
      Files.rmSync(file(backup, "runner/runner-state.json"))
      return forge(backup, ({ files }) => ({
        files: files.filter(({ path }) => path !== "runner/runner-state.json")
      }))
    },
    providerLeaseId
  ],
  [
    "a manifest of another source lease",
    (_, backup) => forge(backup, () => ({ sourceProviderLeaseId: "another-lease" })),
    providerLeaseId
  ],
  [
    "a manifest of another runner instance",
    (_, backup) => forge(backup, () => ({ runnerInstanceId: "runner-2" })),
    providerLeaseId
  ]
]

describe("filesystem/HarnessBackups", () => {
  it.live("RL-BACKUP-04 a whole backup of this lease, session and runner verifies, again and again", () =>
    Effect.gen(function* () {
      const { backupRoot, root, stamp } = yield* makeBackup
      assert.strictEqual(
        stamp.manifestPath,
        Path.join(root, hash("sha256", sessionScopeId), "failover-backups", "current", "manifest.json")
      )
      assert.deepStrictEqual(Files.readdirSync(Path.dirname(backupRoot)), ["current"])
      assert.isTrue(yield* verifies(root, stamp))
      // As the row gives it back.
      assert.isTrue(yield* verifies(root, JSON.parse(JSON.stringify(stamp))))
    })
  )

  it.live.each(spoilt)("RL-BACKUP-04 a backup with %s does not verify", ([, spoil]) =>
    Effect.gen(function* () {
      const backup = yield* makeBackup
      spoil(backup)
      assert.isFalse(yield* verifies(backup.root, backup.stamp))
    })
  )

  it.live.each(foreign)("RL-BACKUP-04 %s does not verify", ([, stamped, lease]) =>
    Effect.gen(function* () {
      const backup = yield* makeBackup
      assert.isFalse(yield* verifies(backup.root, stamped(backup.stamp, backup), lease))
    })
  )

  it.live(
    "RL-BACKUP-04 the root is the variable's when the layer is built; without one nothing verifies",
    () =>
      Effect.gen(function* () {
        const { root, stamp } = yield* makeBackup
        const before = process.env[runnerStateVariable]
        const ask = HarnessBackups.use((backups) => backups.verifies(stamp, providerLeaseId))
        const asked = (value: string | undefined) =>
          Effect.suspend(() => {
            if (value === undefined) delete process.env[runnerStateVariable]
            else process.env[runnerStateVariable] = value
            return Effect.provide(ask, layerFromEnvironment, { local: true })
          })
        yield* Effect.gen(function* () {
          assert.isTrue(yield* asked(root))
          assert.isFalse(yield* asked(undefined))
          assert.isFalse(yield* asked(Path.join(root, "absent")))
        }).pipe(Effect.ensuring(Effect.suspend(() => Effect.ignore(asked(before)))))
      })
  )
})
