/**
 * Adapter of HarnessBackups on the runners' state directory. A stamp is believed in nothing: the place follows from its
 * session, the manifest must have the stamped digest and name the same lease, session and runner, and the files are
 * listed, measured and digested anew. Every folder and file must be our user's, closed to the writing of others, and no
 * link. Writing a backup is the native runner's work; its two records are made here, so that both sides mean one thing.
 * Source: RL-BACKUP-01 to -04.
 */
import { createHash, hash } from "node:crypto"
import * as Files from "node:fs"
import { type FileHandle, open } from "node:fs/promises"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import {
  harnessBackupBytesMax,
  harnessBackupDepthMax,
  harnessBackupFilesMax,
  harnessManifestBytesMax
} from "../../domain/Bounds.ts"
import { HarnessBackups } from "../../domain/runLeases/HarnessBackups.ts"
import { below, createSynced, ownerFault } from "./durable.ts"
import {
  type BackedUpExecution,
  type BackedUpFile,
  backupFolders,
  backupRootOf,
  HarnessBackupStamp,
  HarnessManifest,
  manifestName,
  type ProviderSessionIdentity,
  requiredFiles
} from "./harnessManifest.ts"
import { PrivateFileRefused } from "./privateFiles.ts"

/** Names the runners' state directory. */
export const runnerStateVariable = "HOLDFAST_RUNNER_STATE_DIR"

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = Files.constants
const othersWriteMask = 0o022

const requireOwn = (found: Files.Stats): void => {
  const fault = ownerFault(found)
  if (fault !== null) throw new PrivateFileRefused(fault)
  if ((found.mode & othersWriteMask) !== 0) throw new PrivateFileRefused("others may write it")
}

const using = async <A>(handle: FileHandle, run: (handle: FileHandle) => Promise<A>): Promise<A> => {
  try {
    return await run(handle)
  } finally {
    await handle.close()
  }
}

/** Runs with the directory open; neither it nor the way to it may be changed by others. */
const inDirectory = async <A>(path: string, run: (directory: number) => Promise<A>): Promise<A> =>
  using(await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), async (handle) => {
    requireOwn(await handle.stat())
    return run(handle.fd)
  })

const inFolders = <A>(
  path: string,
  folders: ReadonlyArray<string>,
  run: (directory: number) => Promise<A>
): Promise<A> =>
  inDirectory(path, (directory) => {
    const [next, ...rest] = folders
    return next === undefined ? run(directory) : inFolders(below(directory, next), rest, run)
  })

const openFile = async (directory: number, name: string): Promise<FileHandle> => {
  const handle = await open(below(directory, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const found = await handle.stat()
    if (!found.isFile()) throw new PrivateFileRefused("it is not a regular file")
    requireOwn(found)
    return handle
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** What may still be read: a backup is bounded as a whole. */
interface Allowance {
  files: number
  bytes: number
}

const digestOf = async (handle: FileHandle, allowance: Allowance): Promise<Omit<BackedUpFile, "path">> => {
  const digest = createHash("sha256")
  let bytes = 0
  for await (const chunk of handle.createReadStream({ autoClose: false, start: 0 })) {
    bytes += chunk.length
    allowance.bytes -= chunk.length
    if (allowance.bytes < 0) throw new PrivateFileRefused("the backup is too large")
    digest.update(chunk)
  }
  return { bytes, sha256: digest.digest("hex") }
}

/** Every file below the directory with its size and digest, as the disk has them now. */
const filesBelow = async (
  directory: number,
  prefix: string,
  allowance: Allowance,
  depth: number
): Promise<ReadonlyArray<BackedUpFile>> => {
  if (depth > harnessBackupDepthMax) throw new PrivateFileRefused("the backup is too deep")
  const files: Array<BackedUpFile> = []
  for (const entry of Files.readdirSync(below(directory, "."), { withFileTypes: true })) {
    const path = prefix + entry.name
    if (path === manifestName) continue
    allowance.files -= 1
    if (allowance.files < 0) throw new PrivateFileRefused("the backup has too many files")
    if (entry.isDirectory()) {
      const inner = await inDirectory(below(directory, entry.name), (next) =>
        filesBelow(next, `${path}/`, allowance, depth + 1)
      )
      files.push(...inner)
    } else {
      const facts = await using(await openFile(directory, entry.name), (handle) =>
        digestOf(handle, allowance)
      )
      files.push({ path, ...facts })
    }
  }
  return files
}

const filesOf = async (directory: number): Promise<ReadonlyArray<BackedUpFile>> => {
  const allowance = { files: harnessBackupFilesMax, bytes: harnessBackupBytesMax }
  const files = await filesBelow(directory, "", allowance, 0)
  return files.toSorted((one, other) => (one.path < other.path ? -1 : 1))
}

const manifestText = async (directory: number): Promise<string> =>
  using(await openFile(directory, manifestName), async (handle) => {
    if ((await handle.stat()).size > harnessManifestBytesMax) throw new PrivateFileRefused("it is too large")
    return handle.readFile("utf8")
  })

const decodeManifest = Schema.decodeUnknownSync(Schema.fromJsonString(HarnessManifest))
const decodeStamp = Schema.decodeUnknownSync(HarnessBackupStamp)

const isSameList = (one: ReadonlyArray<BackedUpFile>, other: ReadonlyArray<BackedUpFile>): boolean =>
  one.length === other.length &&
  one.every((file, at) => {
    const beside = other[at]!
    return file.path === beside.path && file.bytes === beside.bytes && file.sha256 === beside.sha256
  })

/** Throws unless the backup is there, whole, and this lease's. */
const verify = async (root: string, given: unknown, providerLeaseId: string): Promise<boolean> => {
  const stamp = decodeStamp(given)
  if (stamp.authorizedProviderLeaseId !== providerLeaseId) return false
  if (stamp.manifestPath !== Path.join(backupRootOf(root, stamp.sessionScopeId), manifestName)) return false
  return inFolders(root, backupFolders(stamp.sessionScopeId), async (directory) => {
    const text = await manifestText(directory)
    if (hash("sha256", text) !== stamp.manifestSha256) return false
    const manifest = decodeManifest(text)
    if (
      manifest.sourceProviderLeaseId !== providerLeaseId ||
      manifest.runnerInstanceId !== stamp.runnerInstanceId ||
      manifest.execution.session.normalizedSessionId !== stamp.normalizedSessionId ||
      manifest.completedAt !== stamp.completedAt
    ) {
      return false
    }
    const found = await filesOf(directory)
    const isComplete = requiredFiles.every((path) =>
      found.some((file) => file.path === path && file.bytes > 0)
    )
    return isComplete && isSameList(found, manifest.files)
  })
}

/**
 * Writes the manifest of a finished backup over the files that lie in its folder, synced and at once, in the place of a
 * former one. The promise fails with whatever the disk or a foreign file fails with.
 */
export const writeHarnessManifest = async (backup: {
  readonly backupRoot: string
  readonly execution: BackedUpExecution
  readonly runnerInstanceId: string
  readonly providerSessionIdentity: ProviderSessionIdentity
  readonly sourceProviderLeaseId: string
  readonly completedAt: string
}): Promise<{ readonly manifest: HarnessManifest; readonly manifestPath: string }> => {
  const { backupRoot, ...rest } = backup
  const files = await inDirectory(backupRoot, filesOf)
  const manifest: HarnessManifest = { schema: "holdfast.native-harness-backup/v1", ...rest, files }
  const temporary = Path.join(Path.dirname(backupRoot), `.${manifestName}.tmp`)
  Files.rmSync(temporary, { force: true })
  for (const _ of createSynced(temporary, `${JSON.stringify(manifest)}\n`, Files));
  const manifestPath = Path.join(backupRoot, manifestName)
  Files.renameSync(temporary, manifestPath)
  await using(await open(backupRoot, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), (handle) => handle.sync())
  return { manifest, manifestPath }
}

/** The stamp of a written manifest, for the lease that it authorizes. */
export const stampHarnessBackup = async (
  stamp: Omit<HarnessBackupStamp, "manifestSha256">
): Promise<HarnessBackupStamp> =>
  inDirectory(Path.dirname(stamp.manifestPath), async (directory) => ({
    ...stamp,
    manifestSha256: hash("sha256", await manifestText(directory))
  }))

const backupsAt = (root: string | undefined): HarnessBackups["Service"] => ({
  verifies: (stamp, providerLeaseId) =>
    root === undefined
      ? Effect.succeed(false)
      : Effect.tryPromise(() => verify(Path.resolve(root), stamp, providerLeaseId)).pipe(
          // Whatever is wrong with it, it is no backup to rely on.
          Effect.orElseSucceed(() => false)
        )
})

export const layer = (options: { readonly root: string }): Layer.Layer<HarnessBackups> =>
  Layer.succeed(HarnessBackups, backupsAt(options.root))

/** The directory that the variable names when the layer is built. Without one nothing was ever backed up. */
export const layerFromEnvironment: Layer.Layer<HarnessBackups> = Layer.sync(HarnessBackups, () =>
  backupsAt(process.env[runnerStateVariable] || undefined)
)
