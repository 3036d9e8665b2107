/**
 * A daemon that answers from a script, on a real socket: the API's own definition, strictness and error bodies, with
 * handlers that a test steers. It proves clients and transport, never the domain.
 */
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import {
  AccountId,
  LeaseId,
  OperationId,
  ProjectId,
  RequestKey,
  SnapshotId,
  TenantId
} from "../../../src/domain/Identity.ts"
import { Api, CurrentCaller } from "../../../src/infra/http/Api.ts"
import type { ExecutionRequest } from "../../../src/infra/http/requestTerms.ts"
import { type ApiError, Conflict, NotFound } from "../../../src/infra/http/ApiErrors.ts"
import { layerDecoded, layerLocalCaller } from "../../../src/infra/http/middleware.ts"
import { scriptedEnvironments } from "./scriptedEnvironments.ts"
import { desktopOfWeb, scriptedDesktop } from "./scriptedDesktop.ts"
import { scriptedWorktrees } from "./scriptedWorktrees.ts"
import { layer as layerSocket } from "../../../src/infra/http/socketServer.ts"
import {
  type CheckView,
  type DeletionView,
  type DesktopView,
  type ExecutionLine,
  type ExecutionView,
  type HistoryView,
  OperationView,
  type OperationWhyView,
  type ProjectView,
  type SnapshotView,
  type StatusView
} from "../../../src/infra/http/Views.ts"

export const uuid = (last: number): string => `00000000-0000-4000-8000-${String(last).padStart(12, "0")}`

export const administrator = new Caller({
  account: AccountId.make(uuid(1)),
  tenant: TenantId.make(uuid(2)),
  name: "root",
  administrator: true,
  initiator: "user"
})

export const web: ProjectView = {
  id: ProjectId.make(7),
  name: "web",
  lifecycle: "active",
  createdAtMillis: 1_000
}

/** A second Project: lists have one on each page. */
const api: ProjectView = { ...web, id: ProjectId.make(8), name: "api" }

/** An operation of `web`, succeeded unless told otherwise. */
export const operation = (fields: Partial<OperationView> = {}): OperationView => ({
  id: OperationId.make(uuid(10)),
  project: web.id,
  action: "provision",
  requestId: RequestKey.make("r-1"),
  generation: Schema.decodeUnknownSync(OperationView.fields.generation)(1),
  initiator: "user",
  state: "succeeded",
  waiting: null,
  step: null,
  fraction: 1,
  message: null,
  result: null,
  error: null,
  supersededBy: null,
  supersedeAskedBy: null,
  createdAtMillis: 1_000,
  settledAtMillis: 2_000,
  ...fields
})

export const execution = LeaseId.make(uuid(20))

export const statusOfWeb: StatusView = {
  project: web,
  runtime: null,
  liveOperation: null,
  operations: [operation({ state: "failed", error: { code: "guest_failure", message: "no" } })],
  executions: [],
  sample: {
    startedAtMillis: 1_000,
    metrics: {
      memory_bytes: { state: "ready", isStale: true, value: 2 * 1024 ** 2, measuredAtMillis: 500 },
      io_read_bytes: { state: "unavailable", isStale: false, value: null, measuredAtMillis: null }
    }
  },
  charges: {
    used: { sandboxes: 1, cpuMillis: 500, memoryBytes: 1024 ** 3 },
    capacity: { sandboxes: 32, cpuMillis: 4_000, memoryBytes: 8 * 1024 ** 3 }
  }
}

export const deletionOfWeb: DeletionView = {
  project: web.id,
  name: "web",
  state: "completed",
  participants: ["plugin:sandbox"],
  completedSteps: ["plugin:sandbox"],
  confirmedPaths: ["/state/a", "/state/b"],
  proofs: ["sb-1 generation 1: no launch was ever prepared"],
  failureCode: null,
  needsOperator: false
}

export const whyOfOperation: OperationWhyView["steps"] = [
  { step: "request", atMillis: 1_000, actor: uuid(1), told: "start of project 7", facts: { project: 7 } },
  { step: "end", atMillis: null, actor: null, told: "it has not ended", facts: {} }
]

export interface Script {
  readonly requestOperation: (payload: unknown) => Effect.Effect<OperationView, ApiError>
  readonly events: Stream.Stream<OperationView>
  readonly run: (request: ExecutionRequest) => Effect.Effect<Stream.Stream<ExecutionLine>, ApiError>
  readonly delete: (confirmedPaths: ReadonlyArray<string>) => Effect.Effect<DeletionView, ApiError>
  readonly health: Effect.Effect<"ok" | "degraded">
  readonly checks: ReadonlyArray<CheckView>
  readonly supersede: Effect.Effect<OperationView, ApiError>
  readonly operations: ReadonlyArray<OperationView>
  readonly leases: ReadonlyArray<ExecutionView>
  readonly history: (query: object) => HistoryView
  readonly desktop: DesktopView
}

export const defaultScript: Script = {
  requestOperation: () => Effect.succeed(operation({ state: "queued", fraction: 0 })),
  events: Stream.make(operation({ state: "claimed", step: "boot", fraction: 0.5 }), operation()),
  run: () =>
    Effect.succeed(
      Stream.make<Array<ExecutionLine>>(
        { type: "started", execution },
        { type: "output", stream: "stdout", data: new TextEncoder().encode("out\n") },
        { type: "output", stream: "stderr", data: new TextEncoder().encode("err\n") },
        { type: "exited", exitCode: 7, ended: "exited" }
      )
    ),
  delete: () => Effect.succeed(deletionOfWeb),
  health: Effect.succeed("ok"),
  checks: [],
  supersede: Effect.succeed(operation({ state: "superseded", supersededBy: uuid(1) })),
  operations: [operation()],
  leases: [],
  history: () => ({ metrics: [] }),
  desktop: desktopOfWeb
}

const known = (project: string): Effect.Effect<ProjectView, NotFound> =>
  project === "web" || project === "7"
    ? Effect.succeed(web)
    : Effect.fail(new NotFound({ code: "project_not_found", message: `no project ${project}`, details: {} }))

/** One snapshot, with a name that no path may hold. */
export const snapshotOfWeb: SnapshotView = {
  id: SnapshotId.make(".."),
  state: "ready",
  bytes: 4_096,
  generation: operation().generation,
  operation: operation().id,
  createdAtMillis: 1_000
}

const scriptedSnapshots = HttpApiBuilder.group(Api, "snapshots", (group) =>
  group.handleAll({
    list: ({ params }) => Effect.as(known(params.project), [snapshotOfWeb]),
    create: ({ params }) => Effect.as(known(params.project), operation({ action: "snapshot" })),
    restore: ({ params }) => Effect.as(known(params.project), operation({ action: "restore" })),
    remove: ({ params, query }) =>
      Effect.andThen(
        known(params.project),
        query.snapshot === snapshotOfWeb.id
          ? Effect.void
          : Effect.fail(new NotFound({ code: "snapshot_not_found", message: "no snapshot", details: {} }))
      )
  })
)

const handlers = (script: Script) =>
  Layer.mergeAll(
    HttpApiBuilder.group(Api, "system", (group) =>
      group.handleAll({
        health: () =>
          Effect.map(script.health, (status) => ({
            status,
            version: "0.1.0",
            node: uuid(3),
            checks: script.checks
          })),
        doctor: () => Effect.succeed({ checks: [] })
      })
    ),
    HttpApiBuilder.group(Api, "projects", (group) =>
      group.handleAll({
        create: ({ payload }) =>
          payload.name === "taken"
            ? Effect.fail(new Conflict({ code: "project_name_taken", message: "taken", details: {} }))
            : Effect.map(CurrentCaller, () => ({ ...web, name: payload.name })),
        list: ({ query }) =>
          Effect.succeed([web, api].filter(({ id }) => id > (query.after ?? 0)).slice(0, 1)),
        get: ({ params }) => known(params.project),
        previewDeletion: ({ params }) =>
          Effect.map(known(params.project), ({ id, name }) => ({
            project: id,
            name,
            paths: deletionOfWeb.confirmedPaths,
            labels: ["sb-1"]
          })),
        delete: ({ params, payload }) =>
          Effect.andThen(known(params.project), script.delete(payload.confirmedPaths)),
        status: ({ params }) => Effect.as(known(params.project), statusOfWeb),
        history: ({ params, query }) => Effect.as(known(params.project), script.history(query))
      })
    ),
    HttpApiBuilder.group(Api, "operations", (group) =>
      group.handleAll({
        request: ({ params, payload }) =>
          Effect.andThen(known(params.project), script.requestOperation(payload)),
        list: ({ params, query }) =>
          Effect.map(known(params.project), () => {
            const after = script.operations.findIndex(({ id }) => id === query.before) + 1
            return script.operations.slice(after, after + 1)
          }),
        supersede: () => script.supersede,
        why: ({ params }) => Effect.succeed({ operation: params.id, steps: whyOfOperation }),
        get: ({ params }) =>
          Effect.succeed(script.operations.find(({ id }) => id === params.id) ?? operation()),
        events: () => Effect.succeed(script.events)
      })
    ),
    HttpApiBuilder.group(Api, "executions", (group) =>
      group.handleAll({
        run: ({ params, payload }) => Effect.andThen(known(params.project), script.run(payload)),
        cancel: () => Effect.void
      })
    ),
    scriptedSnapshots,
    scriptedEnvironments,
    scriptedDesktop(script.desktop, known),
    scriptedWorktrees((project) => Effect.asVoid(known(project))),
    HttpApiBuilder.group(Api, "leases", (group) =>
      group.handleAll({
        list: ({ params }) => Effect.as(known(params.project), script.leases),
        cancel: ({ params }) => Effect.as(known(params.project), script.leases)
      })
    )
  )

/** The routes of the scripted daemon, with the real middleware. */
export const scriptedRoutes = (script: Partial<Script> = {}) => {
  const middleware = Layer.mergeAll(layerDecoded, layerLocalCaller(administrator))
  return HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
    Layer.provide(handlers({ ...defaultScript, ...script }).pipe(Layer.provide(middleware)))
  )
}

/** A fresh private directory that goes with the scope. */
export const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => Fs.mkdtempSync(Path.join(Os.tmpdir(), "holdfast-http-"))),
  (directory) => Effect.sync(() => Fs.rmSync(directory, { recursive: true, force: true }))
)

/** Serves a script in the scope and answers the socket's path. */
export const serveScript = Effect.fnUntraced(function* (script: Partial<Script> = {}) {
  const path = Path.join(yield* temporaryDirectory, "d.sock")
  yield* Layer.build(layerSocket(scriptedRoutes(script), { path, stopGraceMillis: 200 }))
  return path
})

/** A stream that stays open until its scope ends, and a deferred that is done when it was interrupted. */
export const hanging = Effect.gen(function* () {
  const ended = yield* Deferred.make<void>()
  const started: ExecutionLine = { type: "started", execution }
  const stream = Stream.concat(
    Stream.make(started),
    Stream.fromEffect(Effect.onInterrupt(Effect.never, () => Deferred.succeed(ended, undefined)))
  )
  return { ended, stream }
})
