/** Handlers of the group `leases`: what runs inside a Project's guest, and the cancellation of all of it. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { cancelExecutionsFor } from "../../domain/leases/cancellation.ts"
import { LeaseStore } from "../../domain/leases/LeaseStore.ts"
import { answering, resolveProject } from "./access.ts"
import { Api, CurrentCaller } from "./Api.ts"
import { executionView } from "./present.ts"

export const layer = HttpApiBuilder.group(Api, "leases", (handlers) =>
  handlers.handleAll({
    list: Effect.fnUntraced(function* ({ params }) {
      const project = yield* resolveProject(params.project)
      const leases = yield* answering((yield* LeaseStore).ofProject(project.id))
      return leases.map(executionView)
    }),
    cancel: Effect.fnUntraced(function* ({ params }) {
      const project = yield* resolveProject(params.project)
      const asked = yield* answering(cancelExecutionsFor(yield* CurrentCaller, project.id))
      return asked.map(executionView)
    })
  })
)
