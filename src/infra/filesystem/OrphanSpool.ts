/**
 * Adapter of OrphanSpool on a private folder of its own, one file an orphan:
 *
 *     FOLDER/                                     0700   made when the spool is built; a link, another's or an open one is refused
 *       <sha256 of lease and resource>.json       0600   whole and synced before it has this name
 *       .<the same>.json.tmp                      0600   being written; one that is left behind is taken if it is whole
 *       quarantine/                               0700   what was found under any other name, or cannot be read as a record
 *
 * It is used when the database does not answer, so it may wait for the disk in this thread: a record is one flush of a
 * file and one of the folder. A folder that cannot be read is an error and never an empty spool. Source: FC-19, RL 3.5,
 * RL-SPOOL-03, RL-SPOOL-07, RL 6.4 item 2.
 */
import { hash } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import {
  EnvironmentId,
  EnvironmentLeaseId,
  ExecutionWorkspaceId,
  RunId,
  TaskId,
  TenantId
} from "../../domain/Identity.ts"
import { type OrphanRecord, OrphanSpool, OrphanSpoolUnreadable } from "../../domain/runLeases/OrphanSpool.ts"
import { ensurePrivateDirectory, type FileCalls } from "./durable.ts"
import { PrivateFileRefused } from "./privateFiles.ts"
import { inFolder, readFolder, removeFile, writeFile } from "./spoolFolder.ts"

/** Names the folder where neither a spool nor a folder is given. Source: RL-SPOOL-07. */
export const spoolVariable = "HOLDFAST_ORPHAN_CLEANUP_SPOOL_DIR"

const AnyJson = Schema.Record(Schema.String, Schema.Unknown)

const Stored = Schema.fromJsonString(
  Schema.Struct({
    schema: Schema.Literal("holdfast/orphan-cleanup/v1"),
    record: Schema.Struct({
      id: EnvironmentLeaseId,
      tenant: TenantId,
      environment: Schema.NullOr(EnvironmentId),
      executionWorkspace: Schema.NullOr(ExecutionWorkspaceId),
      task: Schema.NullOr(TaskId),
      run: Schema.NullOr(RunId),
      provider: Schema.String,
      providerLeaseId: Schema.String,
      metadata: AnyJson,
      sentConfig: Schema.NullOr(AnyJson),
      failureReason: Schema.String
    })
  })
)

const decode = Schema.decodeUnknownOption(Stored, { onExcessProperty: "error" })

const textOf = (record: OrphanRecord): string =>
  `${JSON.stringify({ schema: "holdfast/orphan-cleanup/v1", record })}\n`

const nameOf = ({ id, providerLeaseId }: OrphanRecord): string =>
  `${hash("sha256", `${id}\n${providerLeaseId}`)}.json`

/** The record of a file, if it is one and the file is called after it. */
const recordOf = (text: string, name: string): OrphanRecord | undefined => {
  const record = Option.getOrUndefined(decode(text))?.record
  return record !== undefined && nameOf(record) === name ? record : undefined
}

const whyUnreadable = (error: unknown): OrphanSpoolUnreadable["why"] => {
  const code = (error as NodeJS.ErrnoException | null)?.code
  if (code === "ELOOP" || code === "ENOTDIR") return "link"
  return error instanceof PrivateFileRefused || code === "EACCES" || code === "EPERM"
    ? "permissions"
    : "folder"
}

/** The spool of one folder, which is made unless something is there. The calls are the system's own but in tests. */
export const makeOrphanSpool = (path: string, calls: FileCalls = Files): OrphanSpool["Service"] => {
  const folder = Path.resolve(path)
  const read = Effect.try({
    try: () => inFolder(folder, calls, (spool) => readFolder(spool, recordOf)),
    catch: (error) => new OrphanSpoolUnreadable({ why: whyUnreadable(error) })
  })
  return {
    append: (record) =>
      Effect.sync(() => {
        try {
          const [name, text] = [nameOf(record), textOf(record)]
          // Only what can be read again is kept.
          return (
            recordOf(text, name) !== undefined &&
            inFolder(folder, calls, (spool) => writeFile(spool, name, text))
          )
        } catch {
          return false
        }
      }),
    load: Effect.map(read, ({ records }) => records),
    remove: (record) =>
      Effect.try({
        try: () => inFolder(folder, calls, (spool) => removeFile(spool, nameOf(record))),
        catch: () => "disk" as const
      }).pipe(
        Effect.catch(() =>
          // It is imported again, as the same row, and removed then.
          Effect.logWarning("an orphan's spool file could not be removed").pipe(
            Effect.annotateLogs({ errorKind: "orphan_spool_remove_failed", lease: record.id })
          )
        )
      ),
    // That the folder cannot be read is told by `load`.
    quarantined: Effect.match(read, { onFailure: () => 0, onSuccess: ({ quarantined }) => quarantined })
  }
}

/** A folder that cannot be made is told by the first `load`, so that a daemon starts and says so. */
const prepare = (path: string): void => {
  try {
    ensurePrivateDirectory(Path.resolve(path))
  } catch {
    // `load` looks at it again and says what is wrong.
  }
}

const spoolAt = (path: string): Layer.Layer<OrphanSpool> =>
  Layer.sync(OrphanSpool, () => {
    prepare(path)
    return makeOrphanSpool(path)
  })

export const layer = (options: { readonly directory: string }): Layer.Layer<OrphanSpool> =>
  spoolAt(options.directory)

/** The folder that the variable names when the layer is built, else the given one. Source: RL-SPOOL-07. */
export const layerFromEnvironment = (options: { readonly otherwise: string }): Layer.Layer<OrphanSpool> =>
  Layer.unwrap(Effect.sync(() => spoolAt(process.env[spoolVariable] || options.otherwise)))
