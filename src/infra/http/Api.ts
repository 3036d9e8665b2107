/**
 * The whole HTTP API as a definition: paths, what they take, what they answer. It performs nothing; the handlers
 * are in handlers.ts and the daemon serves it on a UNIX socket (socketServer.ts). Request bodies are
 * strict: an unknown field is refused by name; answers may grow fields that an older client leaves unread. Source: SP-HTTP-03, SP-HTTP-05.
 */
import * as Context from "effect/Context"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
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
import type { Caller } from "../../domain/host/Accounts.ts"
import { nameFault } from "../../domain/host/ProjectStore.ts"
import { Generation, LeaseId, OperationId, ProjectId, RequestKey, SnapshotId } from "../../domain/Identity.ts"
import { OperationAction, OperationParameters } from "../../domain/operations/Operation.ts"
import { RepositoryName } from "../../domain/leases/RepositoryClaim.ts"
import { BranchName, StartPoint, WorktreeName } from "../../domain/worktrees/Worktree.ts"
import { apiErrors } from "./ApiErrors.ts"
import {
  DeletionPreviewView,
  DeletionView,
  DoctorView,
  ExecutionLine,
  ExecutionView,
  HealthView,
  HistoryView,
  OperationView,
  OperationWhyView,
  ProjectView,
  SnapshotView,
  StatusView,
  WorktreeView
} from "./Views.ts"

/** The verified caller of the request that this fiber serves. Provided by the `Identified` middleware only. */
export class CurrentCaller extends Context.Service<CurrentCaller, Caller>()(
  "holdfast/infra/http/Api/CurrentCaller"
) {}

/** Tells who asks, from what carries the request and never from its body. Source: SP-HTTP-03. */
export class Identified extends HttpApiMiddleware.Service<Identified, { provides: CurrentCaller }>()(
  "holdfast/infra/http/Api/Identified",
  { error: [...apiErrors] }
) {}

/** Turns whatever the schemas refuse into the API's own error bodies. */
export class Decoded extends HttpApiMiddleware.Service<Decoded>()("holdfast/infra/http/Api/Decoded", {
  error: [...apiErrors]
}) {}

const bytesOf = (text: string): number => new TextEncoder().encode(text).length

const boundedText = (bytesMax: number, name: string) =>
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

const inProject = { project: ProjectReference }

/** Which buckets of a history are asked for. Source: SP-RES. */
export const HistoryQuery = {
  metric: Schema.optionalKey(Metric),
  resolution: Schema.optionalKey(Resolution),
  fromMillis: Schema.optionalKey(Schema.Int),
  toMillis: Schema.optionalKey(Schema.Int)
}

class SystemGroup extends HttpApiGroup.make("system").add(
  HttpApiEndpoint.get("health", "/health", { success: HealthView }),
  HttpApiEndpoint.get("doctor", "/doctor", { success: DoctorView })
) {}

class ProjectsGroup extends HttpApiGroup.make("projects").add(
  HttpApiEndpoint.post("create", "/projects", {
    payload: Schema.Struct({ name: ProjectName }),
    success: ProjectView.pipe(HttpApiSchema.status(201))
  }),
  /** One page in the order of ids, after the given one; an empty page is the end. */
  HttpApiEndpoint.get("list", "/projects", {
    query: { after: Schema.optionalKey(ProjectId) },
    success: Schema.Array(ProjectView)
  }),
  HttpApiEndpoint.get("get", "/projects/:project", { params: inProject, success: ProjectView }),
  HttpApiEndpoint.get("previewDeletion", "/projects/:project/deletion", {
    params: inProject,
    success: DeletionPreviewView
  }),
  HttpApiEndpoint.post("delete", "/projects/:project/deletion", {
    params: inProject,
    payload: Schema.Struct({ confirmedPaths: Schema.Array(Schema.String) }),
    success: DeletionView
  }),
  HttpApiEndpoint.get("status", "/projects/:project/status", { params: inProject, success: StatusView }),
  /** Without a resolution both; from and before moments since the epoch, by default all that is kept. */
  HttpApiEndpoint.get("history", "/projects/:project/history", {
    params: inProject,
    query: HistoryQuery,
    success: HistoryView
  })
) {}

class OperationsGroup extends HttpApiGroup.make("operations").add(
  HttpApiEndpoint.post("request", "/projects/:project/operations", {
    params: inProject,
    payload: OperationRequest,
    success: OperationView.pipe(HttpApiSchema.status(202))
  }),
  /** One page, newest first, of those older than the given one; an empty page is the end. */
  HttpApiEndpoint.get("list", "/projects/:project/operations", {
    params: inProject,
    query: { before: Schema.optionalKey(OperationId) },
    success: Schema.Array(OperationView)
  }),
  HttpApiEndpoint.get("get", "/operations/:id", { params: { id: OperationId }, success: OperationView }),
  /** Takes a queued operation back; one that is superseded already is answered as it is. Source: FC-06. */
  HttpApiEndpoint.post("supersede", "/operations/:id/supersede", {
    params: { id: OperationId },
    success: OperationView
  }),
  HttpApiEndpoint.get("why", "/operations/:id/why", {
    params: { id: OperationId },
    success: OperationWhyView
  }),
  /** The operation as it is now and at every change, until it has settled; then the stream ends. */
  HttpApiEndpoint.get("events", "/operations/:id/events", {
    params: { id: OperationId },
    success: HttpApiSchema.StreamSse({ data: OperationView })
  })
) {}

class ExecutionsGroup extends HttpApiGroup.make("executions").add(
  /** Runs one command and streams it. Whoever hangs up cancels the command. */
  HttpApiEndpoint.post("run", "/projects/:project/executions", {
    params: inProject,
    payload: ExecutionRequest,
    success: HttpApiSchema.StreamNdjson({ schema: ExecutionLine })
  }),
  HttpApiEndpoint.delete("cancel", "/executions/:id", {
    params: { id: LeaseId },
    success: HttpApiSchema.NoContent
  })
) {}

class SnapshotsGroup extends HttpApiGroup.make("snapshots").add(
  HttpApiEndpoint.get("list", "/projects/:project/snapshots", {
    params: inProject,
    success: Schema.Array(SnapshotView)
  }),
  HttpApiEndpoint.post("create", "/projects/:project/snapshots", {
    params: inProject,
    payload: SnapshotRequest,
    success: OperationView.pipe(HttpApiSchema.status(202))
  }),
  HttpApiEndpoint.post("restore", "/projects/:project/snapshots/restore", {
    params: inProject,
    payload: SnapshotRequest,
    success: OperationView.pipe(HttpApiSchema.status(202))
  }),
  /** Removes one; it is gone when this answers. */
  HttpApiEndpoint.delete("remove", "/projects/:project/snapshots", {
    params: inProject,
    query: { snapshot: SnapshotId },
    success: HttpApiSchema.NoContent
  })
) {}

class WorktreesGroup extends HttpApiGroup.make("worktrees").add(
  HttpApiEndpoint.get("list", "/projects/:project/worktrees", {
    params: inProject,
    success: Schema.Array(WorktreeView)
  }),
  /** Makes one in the Project's guest; it is there when this answers. Whoever hangs up has it taken back. */
  HttpApiEndpoint.post("create", "/projects/:project/worktrees", {
    params: inProject,
    payload: WorktreeRequest,
    success: WorktreeView.pipe(HttpApiSchema.status(201))
  }),
  /** Removes one with its tree; the branch stays. By force also what is nowhere else, and what git has locked. */
  HttpApiEndpoint.delete("remove", "/projects/:project/worktrees/:name", {
    params: { ...inProject, name: WorktreeName },
    query: { force: Schema.optionalKey(Schema.Literals(["true", "false"])) },
    success: HttpApiSchema.NoContent
  })
) {}

class LeasesGroup extends HttpApiGroup.make("leases").add(
  /** What runs inside the Project's guest now, the oldest first. */
  HttpApiEndpoint.get("list", "/projects/:project/leases", {
    params: inProject,
    success: Schema.Array(ExecutionView)
  }),
  /** Asks for the cancellation of all of them, and answers those that have yet to end. */
  HttpApiEndpoint.delete("cancel", "/projects/:project/leases", {
    params: inProject,
    success: Schema.Array(ExecutionView)
  })
) {}

export class Api extends HttpApi.make("holdfast")
  .add(
    SystemGroup,
    ProjectsGroup,
    OperationsGroup,
    ExecutionsGroup,
    SnapshotsGroup,
    WorktreesGroup,
    LeasesGroup
  )
  .middleware(Identified)
  .middleware(Decoded)
  .annotate(HttpApi.ParseOptions, { onExcessProperty: "error", errors: "all" })
  .annotate(HttpApi.HeadersParseOptions, {})
  .annotate(HttpApi.SuccessParseOptions, {})
  .annotate(HttpApi.ErrorParseOptions, {}) {}
