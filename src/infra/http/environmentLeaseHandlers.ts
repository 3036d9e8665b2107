/** Handlers of the group `environmentLeases`: a tenant's leases, what became of them, and what people do about them. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { EnvironmentLeaseStore } from "../../domain/environments/EnvironmentLeaseStore.ts"
import type { EnvironmentLease } from "../../domain/environments/EnvironmentLease.ts"
import type { Caller } from "../../domain/host/Accounts.ts"
import type { EnvironmentLeaseId, RunId } from "../../domain/Identity.ts"
import { findEnvironment, findLease, requireAdministrator } from "../../domain/runLeases/environmentAccess.ts"
import { EnvironmentRuntime } from "../../domain/runLeases/EnvironmentRuntime.ts"
import {
  destroyByHand,
  explainLease,
  releaseByHand,
  retryByHand
} from "../../domain/runLeases/leaseActions.ts"
import { Api, CurrentCaller } from "./Api.ts"
import { answeringRuntime } from "./environmentRefusals.ts"
import { environmentLeaseView } from "./environmentViews.ts"

const list = Effect.fnUntraced(function* (query: { readonly environment?: string; readonly run?: RunId }) {
  const { tenant } = yield* CurrentCaller
  const environment =
    query.environment === undefined ? {} : { environment: (yield* findEnvironment(query.environment)).id }
  const run = query.run === undefined ? {} : { run: query.run }
  const leases = yield* EnvironmentLeaseStore.use((store) =>
    store.listLeases({ tenant, ...environment, ...run })
  )
  return leases.map(environmentLeaseView)
}, answeringRuntime)

/** One lease by one program. */
const one =
  <E, R>(act: (caller: Caller, lease: EnvironmentLeaseId) => Effect.Effect<EnvironmentLease, E, R>) =>
  ({ params }: { readonly params: { readonly lease: EnvironmentLeaseId } }) =>
    Effect.flatMap(CurrentCaller, (caller) => act(caller, params.lease)).pipe(
      Effect.map(environmentLeaseView),
      answeringRuntime
    )

const why = Effect.fnUntraced(function* (id: EnvironmentLeaseId) {
  const { lease, steps } = yield* explainLease(yield* CurrentCaller, id)
  return { lease: environmentLeaseView(lease), steps }
}, answeringRuntime)

/** What only the daemon and its spool know of comes first, so that the pass finds its rows. */
const sweep = Effect.gen(function* () {
  yield* requireAdministrator(yield* CurrentCaller, "cleanups")
  const runtime = yield* EnvironmentRuntime
  const { recovered } = yield* runtime.flushDeferredOrphanCleanups
  return { ...(yield* runtime.sweepCleanups(0)), recovered }
}).pipe(answeringRuntime)

export const layer = HttpApiBuilder.group(Api, "environmentLeases", (handlers) =>
  handlers.handleAll({
    list: ({ query }) => list(query),
    get: one(findLease),
    why: ({ params }) => why(params.lease),
    release: one(releaseByHand),
    destroy: one(destroyByHand),
    retry: one(retryByHand),
    sweep: () => sweep
  })
)
