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
import type { Caller } from "../../domain/host/Accounts.ts"
import { LeaseId, OperationId, ProjectId, SnapshotId } from "../../domain/Identity.ts"
import { WorktreeName } from "../../domain/worktrees/Worktree.ts"
import { apiErrors } from "./ApiErrors.ts"
import {
  EnvironmentLeasesGroup,
  EnvironmentsGroup,
  ProvidersGroup,
  RunsGroup,
  SecretsGroup
} from "./environmentApi.ts"
import {
  ExecutionRequest,
  HistoryQuery,
  OperationRequest,
  ProjectName,
  ProjectReference,
  SnapshotRequest,
  WorktreeRequest
} from "./requestTerms.ts"
import {
  DeletionPreviewView,
  DeletionView,
  DesktopView,
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

const inProject = { project: ProjectReference }

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
  /**
   * Takes a queued operation back; one that is superseded already is answered as it is. One that is claimed by a node
   * that is not seen is answered with the mark, and superseded once its claim comes back. Source: FC-06.
   */
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

class DesktopGroup extends HttpApiGroup.make("desktop").add(
  HttpApiEndpoint.get("show", "/projects/:project/desktop", { params: inProject, success: DesktopView }),
  /** Starts one and answers once it is ready; one that is there already is answered as it is. */
  HttpApiEndpoint.post("start", "/projects/:project/desktop", { params: inProject, success: DesktopView }),
  /** Ends it; it is gone when this answers. */
  HttpApiEndpoint.delete("stop", "/projects/:project/desktop", {
    params: inProject,
    success: HttpApiSchema.NoContent
  }),
  /** A WebSocket whose binary messages are the bytes of one viewer's RFB connection, as noVNC sends them. */
  HttpApiEndpoint.get("channel", "/projects/:project/desktop/channel", {
    params: inProject,
    success: HttpApiSchema.NoContent
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
    LeasesGroup,
    DesktopGroup
  )
  .add(EnvironmentsGroup, EnvironmentLeasesGroup, RunsGroup, SecretsGroup, ProvidersGroup)
  .middleware(Identified)
  .middleware(Decoded)
  .annotate(HttpApi.ParseOptions, { onExcessProperty: "error", errors: "all" })
  .annotate(HttpApi.HeadersParseOptions, {})
  .annotate(HttpApi.SuccessParseOptions, {})
  .annotate(HttpApi.ErrorParseOptions, {}) {}
