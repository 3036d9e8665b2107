/** The desktop of the scripted daemon: one that answers, and a channel that sends back what it is sent. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { Generation, LeaseId } from "../../../src/domain/Identity.ts"
import { Api } from "../../../src/infra/http/Api.ts"
import type { NotFound } from "../../../src/infra/http/ApiErrors.ts"
import type { DesktopView } from "../../../src/infra/http/Views.ts"

export const desktopOfWeb: DesktopView = {
  state: "ready",
  display: {
    execution: LeaseId.make("00000000-0000-4000-8000-000000000021"),
    generation: Generation.make(1),
    name: ":1",
    startedAtMillis: 1_000,
    viewers: 0
  }
}

const echoed = Effect.fnUntraced(function* (request: HttpServerRequest) {
  const viewer = yield* Effect.orDie(request.upgrade)
  const { pull } = yield* Effect.orDie(viewer.reader)
  const { writeAll } = yield* viewer.writer
  yield* Effect.ignore(Effect.forever(Effect.flatMap(pull, writeAll)))
  return HttpServerResponse.empty()
}, Effect.scoped)

/** The group over one desktop, of the Projects that are known. */
export const scriptedDesktop = (
  desktop: DesktopView,
  known: (project: string) => Effect.Effect<unknown, NotFound>
) =>
  HttpApiBuilder.group(Api, "desktop", (group) =>
    group
      .handleRaw("channel", ({ params, request }) => Effect.andThen(known(params.project), echoed(request)))
      .handleAll({
        show: ({ params }) => Effect.as(known(params.project), desktop),
        start: ({ params }) => Effect.as(known(params.project), desktop),
        stop: ({ params }) => Effect.asVoid(known(params.project))
      })
  )
