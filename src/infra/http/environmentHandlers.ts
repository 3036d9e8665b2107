/** Handlers of the group `environments`: what administrators keep. Source: RL section 2.1. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { EnvironmentStore } from "../../domain/environments/EnvironmentStore.ts"
import { findEnvironment, requireAdministrator } from "../../domain/runLeases/environmentAccess.ts"
import { deleteEnvironment } from "../../domain/runLeases/environmentDeletion.ts"
import { createEnvironment, updateEnvironment } from "../../domain/runLeases/environmentKeeping.ts"
import { Api, CurrentCaller } from "./Api.ts"
import type { EnvironmentChange, EnvironmentCreation } from "./environmentApi.ts"
import { answeringRuntime } from "./environmentRefusals.ts"
import { environmentRowView } from "./environmentViews.ts"

const asAdministrator = Effect.flatMap(CurrentCaller, (caller) =>
  requireAdministrator(caller, "environments")
)

const create = Effect.fnUntraced(function* (payload: EnvironmentCreation) {
  yield* asAdministrator
  return environmentRowView(yield* createEnvironment(payload))
}, answeringRuntime)

const list = Effect.gen(function* () {
  yield* asAdministrator
  const environments = yield* Effect.flatMap(EnvironmentStore, (store) => store.list)
  return environments.map(environmentRowView)
}).pipe(answeringRuntime)

const get = Effect.fnUntraced(function* (reference: string) {
  yield* asAdministrator
  return environmentRowView(yield* findEnvironment(reference))
}, answeringRuntime)

const update = Effect.fnUntraced(function* (reference: string, payload: EnvironmentChange) {
  yield* asAdministrator
  return environmentRowView(yield* updateEnvironment(yield* findEnvironment(reference), payload))
}, answeringRuntime)

const remove = Effect.fnUntraced(function* (reference: string) {
  yield* asAdministrator
  const environment = yield* findEnvironment(reference)
  const { destroyed } = yield* deleteEnvironment(environment)
  return { id: environment.id, destroyed }
}, answeringRuntime)

export const layer = HttpApiBuilder.group(Api, "environments", (handlers) =>
  handlers.handleAll({
    create: ({ payload }) => create(payload),
    list: () => list,
    get: ({ params }) => get(params.environment),
    update: ({ params, payload }) => update(params.environment, payload),
    remove: ({ params }) => remove(params.environment)
  })
)
