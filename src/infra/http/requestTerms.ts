/**
 * What requests of the API say: the schemas of their paths, queries and bodies, apart from the endpoints that take them.
 * Source: SP-HTTP-02, SP-HTTP-03.
 */
import * as Schema from "effect/Schema"
import {
  argvItemBytesMax,
  argvItemsMax,
  environmentKeyBytesMax,
  environmentPairsMax,
  environmentValueBytesMax,
  executionTimeoutMillisMax
} from "../../domain/Bounds.ts"
import { Metric, Resolution } from "../../domain/history/History.ts"
import { nameFault } from "../../domain/host/ProjectStore.ts"
import { Generation, RequestKey, SnapshotId } from "../../domain/Identity.ts"
import { RepositoryName } from "../../domain/leases/RepositoryClaim.ts"
import { OperationAction, OperationParameters } from "../../domain/operations/Operation.ts"
import { BranchName, StartPoint, WorktreeName } from "../../domain/worktrees/Worktree.ts"

/** Length in bytes of UTF-8. */
export const bytesOf = (text: string): number => new TextEncoder().encode(text).length

/** A text of at most so many bytes of UTF-8, without NUL; `name` says what it is. */
export const boundedText = (bytesMax: number, name: string) =>
  Schema.String.check(
    Schema.makeFilter((text: string) => bytesOf(text) <= bytesMax && !text.includes("\0"), {
      expected: `${name} of at most ${bytesMax} bytes without NUL`
    })
  )

/** A new Project's name; digits alone would be taken for an id. The rule itself is the host's. */
export const ProjectName = Schema.String.check(
  Schema.makeFilter((name: string) => nameFault(name) === null, {
    expected: "1 to 63 lower-case letters, digits and inner hyphens, with at least one letter"
  })
)

/** A Project in a path: its id when it is a canonical positive integer, else its name. */
export const ProjectReference = Schema.String.check(Schema.isPattern(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/))

export const OperationRequest = Schema.Struct({
  action: OperationAction,
  requestId: RequestKey,
  expectedGeneration: Schema.optionalKey(Generation),
  parameters: Schema.optionalKey(OperationParameters)
})

/** Making a snapshot of that name, or restoring it. The name is never part of a path, since `..` is one. */
export const SnapshotRequest = Schema.Struct({
  snapshot: SnapshotId,
  requestId: RequestKey,
  expectedGeneration: Schema.optionalKey(Generation)
})
export type SnapshotRequest = typeof SnapshotRequest.Type

/** A worktree of the repository at a path below the workspace; a branch that is left out has the worktree's name. */
export const WorktreeRequest = Schema.Struct({
  repository: RepositoryName,
  name: WorktreeName,
  branch: Schema.optionalKey(BranchName),
  /** Where a branch that is not there yet begins; the repository's HEAD when left out. */
  startPoint: Schema.optionalKey(StartPoint)
})
export type WorktreeRequest = typeof WorktreeRequest.Type

export const ExecutionRequest = Schema.Struct({
  argv: Schema.NonEmptyArray(boundedText(argvItemBytesMax, "an argument")).check(
    Schema.isMaxLength(argvItemsMax)
  ),
  environment: Schema.Record(
    boundedText(environmentKeyBytesMax, "a name"),
    boundedText(environmentValueBytesMax, "a value")
  ).check(Schema.isMaxProperties(environmentPairsMax)),
  /** Absolute path inside the guest; the workspace when left out. */
  workingDirectory: Schema.optionalKey(
    boundedText(argvItemBytesMax, "an absolute path").check(Schema.isStartingWith("/"))
  ),
  timeoutMillis: Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: executionTimeoutMillisMax }))
  ),
  /** Base64 of the whole standard input. */
  standardInput: Schema.optionalKey(Schema.Uint8ArrayFromBase64)
})
export type ExecutionRequest = typeof ExecutionRequest.Type

/** Which buckets of a history are asked for. Source: SP-RES. */
export const HistoryQuery = {
  metric: Schema.optionalKey(Metric),
  resolution: Schema.optionalKey(Resolution),
  fromMillis: Schema.optionalKey(Schema.Int),
  toMillis: Schema.optionalKey(Schema.Int)
}
