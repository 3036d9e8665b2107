/** The groups about environments of a scripted daemon that has none: whatever is asked of them is not there. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Layer from "effect/Layer"
import { Api } from "../../../src/infra/http/Api.ts"
import { NotFound } from "../../../src/infra/http/ApiErrors.ts"

const absent = () =>
  Effect.fail(new NotFound({ code: "environment_not_found", message: "there is none", details: {} }))
const none = () => Effect.succeed([])

export const scriptedEnvironments = Layer.mergeAll(
  HttpApiBuilder.group(Api, "environments", (group) =>
    group.handleAll({ create: absent, list: none, get: absent, update: absent, remove: absent })
  ),
  HttpApiBuilder.group(Api, "environmentLeases", (group) =>
    group.handleAll({
      list: none,
      get: absent,
      why: absent,
      release: absent,
      destroy: absent,
      retry: absent,
      sweep: absent
    })
  ),
  HttpApiBuilder.group(Api, "runs", (group) => group.handleAll({ run: absent })),
  HttpApiBuilder.group(Api, "secrets", (group) =>
    group.handleAll({ list: none, set: absent, rotate: absent, bind: absent })
  ),
  HttpApiBuilder.group(Api, "providers", (group) =>
    group.handleAll({ list: none, add: absent, remove: absent })
  )
)
