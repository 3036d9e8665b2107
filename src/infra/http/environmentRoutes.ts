/**
 * The routes of the persistent runtime's plugin: a Project's environment, read and asked for. Reading is one snapshot
 * in which access is checked; it provisions nothing and asks no machine. Asking admits one durable operation. A Project
 * that the caller may not see is answered like one that does not exist. Source: SP-HTTP-01, SP-HTTP-03, SP-HTTP-04.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { DeclaredRoute, OfferedRoute } from "../../domain/host/PluginManifest.ts"
import { ProjectNotFound, ProjectStore } from "../../domain/host/ProjectStore.ts"
import type { RouteRequest } from "../../domain/host/Routes.ts"
import { Generation, ProjectId, RequestKey } from "../../domain/Identity.ts"
import { admitOperation } from "../../domain/operations/admission.ts"
import { readEnvironment } from "../../domain/operations/environment.ts"
import { OperationAction } from "../../domain/operations/Operation.ts"
import { refusalOfIssue } from "./middleware.ts"
import { oneOperationView } from "./operationViews.ts"
import { environmentView } from "./present.ts"
import { answerOf } from "./refusals.ts"

const pattern = "projects/:id/environment"

/** What the plugin's manifest declares. */
export const environmentDeclarations: ReadonlyArray<DeclaredRoute> = [
  { method: "GET", pattern },
  { method: "POST", pattern }
]

const EnvironmentRequest = Schema.Struct({
  action: OperationAction,
  requestId: RequestKey,
  expectedGeneration: Schema.optionalKey(Generation)
})

const decodeRequest = (body: unknown) =>
  Schema.decodeUnknownEffect(EnvironmentRequest)(body, { onExcessProperty: "error", errors: "all" }).pipe(
    Effect.mapError(({ issue }) => refusalOfIssue(issue))
  )

/** The route's pattern has let canonical ids through only. */
const projectOf = ({ parameters }: RouteRequest): ProjectId => ProjectId.make(Number(parameters["id"]))

const hidden = (project: ProjectId) => new ProjectNotFound({ project: String(project) })

const read = Effect.fnUntraced(function* (request: RouteRequest) {
  const project = projectOf(request)
  const environment = yield* readEnvironment(request.caller, project).pipe(
    Effect.catchTag("AccessRefused", () => Effect.fail(hidden(project)))
  )
  return environmentView(project, environment)
}, Effect.mapError(answerOf))

const ask = Effect.fnUntraced(function* (request: RouteRequest) {
  const { action, expectedGeneration, requestId } = yield* decodeRequest(request.body)
  const project = projectOf(request)
  const visible = yield* (yield* ProjectStore).find(request.caller, String(project))
  if (Option.isNone(visible)) return yield* hidden(project)
  const { operation } = yield* admitOperation(request.caller, {
    project,
    action,
    requestKey: requestId,
    expectedGeneration: expectedGeneration ?? null,
    parameters: {}
  })
  return yield* oneOperationView(operation)
}, Effect.mapError(answerOf))

export type EnvironmentNeeds = Effect.Services<ReturnType<typeof read | typeof ask>>

/** The routes over the services in context. */
export const environmentRoutes: Effect.Effect<
  ReadonlyArray<OfferedRoute>,
  never,
  EnvironmentNeeds
> = Effect.map(Effect.context<EnvironmentNeeds>(), (context) => [
  { method: "GET", pattern, handler: (request) => Effect.provideContext(read(request), context) },
  { method: "POST", pattern, handler: (request) => Effect.provideContext(ask(request), context) }
])
