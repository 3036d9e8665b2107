/**
 * Handlers of the group `desktop`: show, start, stop, and the channel of one viewer. What refuses a viewer is the answer to
 * his request; behind the handshake there is nothing left to answer but the end of the channel.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"

import { type DesktopDescription, DesktopsDisposed } from "../../domain/desktop/Desktop.ts"
import { describeDesktop } from "../../domain/desktop/description.ts"
import { startDesktop, stopDesktop } from "../../domain/desktop/lifetime.ts"
import { viewDesktop } from "../../domain/desktop/viewing.ts"
import type { ProjectId } from "../../domain/Identity.ts"
import { answering, resolveProject } from "./access.ts"
import { Api, CurrentCaller } from "./Api.ts"
import { InvalidRequest } from "./ApiErrors.ts"
import { carryViewer } from "./desktopChannel.ts"
import { desktopView } from "./present.ts"
import { ServerStopping } from "./socketServer.ts"

const viewOf = Effect.fnUntraced(function* (project: ProjectId, described: DesktopDescription | null) {
  return described === null ? yield* new DesktopsDisposed({ project }) : desktopView(described)
})

const upgradeNeeded = () =>
  new InvalidRequest({
    code: "invalid_request",
    message: "this path is a WebSocket: ask with the headers of its handshake",
    details: {}
  })

const channel = Effect.fnUntraced(function* (
  { params, request }: { readonly params: { readonly project: string }; readonly request: HttpServerRequest },
  stopping: Effect.Effect<void>
) {
  const caller = yield* CurrentCaller
  if (request.headers["upgrade"]?.toLowerCase() !== "websocket") return yield* upgradeNeeded()
  const project = yield* resolveProject(params.project)
  const { connection, over } = yield* answering(viewDesktop(caller, project.id))
  yield* request.upgrade.pipe(
    Effect.flatMap((viewer) => carryViewer(viewer, connection, Effect.raceFirst(over, stopping))),
    // The viewer has hung up before, or in, the handshake: there is nobody to tell.
    Effect.ignore
  )
  return HttpServerResponse.empty()
}, Effect.scoped)

export const layer = HttpApiBuilder.group(
  Api,
  "desktop",
  Effect.fnUntraced(function* (handlers) {
    const stopping = yield* ServerStopping
    return handlers
      .handleRaw("channel", (request) => channel(request, stopping.await))
      .handleAll({
        show: Effect.fnUntraced(function* ({ params }) {
          const caller = yield* CurrentCaller
          const { id } = yield* resolveProject(params.project)
          return yield* answering(
            Effect.flatMap(describeDesktop(caller, id, "read"), (described) => viewOf(id, described))
          )
        }),
        start: Effect.fnUntraced(function* ({ params }) {
          const caller = yield* CurrentCaller
          const { id } = yield* resolveProject(params.project)
          return desktopView(yield* answering(startDesktop(caller, id)))
        }),
        stop: Effect.fnUntraced(function* ({ params }) {
          const caller = yield* CurrentCaller
          const { id } = yield* resolveProject(params.project)
          yield* answering(stopDesktop(caller, id))
        })
      })
  })
)
