/**
 * Handlers of the node's API. Whatever changes a sandbox is carried out in the daemon's own scope: a caller who hangs
 * up cancels neither a creation nor a deletion nor anything between; only a command that runs goes with its caller.
 * Source: RG figures (client hangs up), RG-RUN-01.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Stream from "effect/Stream"
import { guestStopGraceMillis, sandboxListMax } from "../../../domain/Bounds.ts"
import type { GuestSignal } from "../../../domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../../domain/guests/GuestSupervisor.ts"
import { Identifiers } from "../../../domain/Identifiers.ts"
import { LeaseId, type SandboxId } from "../../../domain/Identity.ts"
import type { RunState } from "../../../domain/reclamation/RunState.ts"
import { lookUpEndpoint } from "../../../domain/registry/endpoint.ts"
import { pauseSandbox, resumeSandbox, stopSandbox } from "../../../domain/registry/lifecycle.ts"
import {
  lookAtReadiness,
  requireAlive,
  requireReady,
  requireRunning
} from "../../../domain/registry/readiness.ts"
import { EndpointUnavailable } from "../../../domain/registry/NodeRefusals.ts"
import { Registry } from "../../../domain/registry/Registry.ts"
import { deleteSandbox } from "../../../domain/registry/removal.ts"
import { renewSandbox } from "../../../domain/registry/renewal.ts"
import { createRequested } from "../../../domain/registry/requestedCreation.ts"
import { signalSandbox } from "../../../domain/registry/signal.ts"
import { requireKept } from "../../../domain/registry/status.ts"
import {
  isWhollyFailed,
  nodeSweeps,
  reportText,
  type SweepReport,
  SweepReports
} from "../../../domain/SweepReports.ts"
import { whySandbox } from "../../../domain/registry/whySandbox.ts"
import type { ExecutionRequest } from "../requestTerms.ts"
import { commandOf } from "../executionHandlers.ts"
import { startedStream } from "../executionStream.ts"
import { chargesView } from "../present.ts"
import { NodeApi, type SandboxCreation } from "./NodeApi.ts"
import { NodeTerms } from "./NodeTerms.ts"
import type { ReadinessView } from "./NodeViews.ts"
import { deletedView, inspectionView, pendingView, sandboxSummary, sandboxView } from "./nodePresent.ts"
import { nodeAnswering, nodeAnswerOf } from "./nodeRefusals.ts"
import { keyedRequest } from "./nodeRequests.ts"

type Needs = Registry | RunState | GuestSupervisor | Identifiers | NodeTerms | SweepReports

/** A daemon of more than the node has more sweeps; they say nothing of the node. */
const ownSweeps = Effect.gen(function* () {
  const names: ReadonlyArray<string> = Object.values(nodeSweeps)
  return (yield* (yield* SweepReports).all).filter(({ sweep }) => names.includes(sweep))
})

const stateOf = (
  isSettled: boolean,
  sweeps: ReadonlyArray<SweepReport>
): Pick<ReadinessView, "state" | "why"> => {
  if (!isSettled) return { state: "starting", why: "what the last daemon left is still being looked at" }
  const failed = sweeps.find(isWhollyFailed)
  return failed === undefined
    ? { state: "ready", why: null }
    : { state: "degraded", why: `the sweep of ${failed.sweep}: ${reportText(failed)}` }
}

const readiness = Effect.gen(function* () {
  const registry = yield* Registry
  const { isSettled, version } = yield* NodeTerms
  const { capabilities } = yield* GuestSupervisor
  const settled = yield* isSettled
  const sweeps = yield* ownSweeps
  const shared = {
    live: true as const,
    version,
    node: registry.node,
    supervisor: capabilities.supervisor,
    sweeps
  }
  return yield* Effect.match(registry.charges, {
    onFailure: ({ message }): ReadinessView => ({
      ...shared,
      state: "storage_failed",
      why: message,
      charges: null
    }),
    onSuccess: (charges): ReadinessView => ({
      ...shared,
      ...stateOf(settled, sweeps),
      charges: chargesView(charges, registry.capacity)
    })
  })
})

const create = Effect.fnUntraced(function* (body: SandboxCreation) {
  const { node } = yield* Registry
  const { actor, lifeSecondsMax } = yield* NodeTerms
  const request = yield* Effect.fromResult(keyedRequest(body, { node, actor, lifeSecondsMax }))
  return sandboxView(yield* createRequested(request))
})

const list = Effect.fnUntraced(function* (after: string) {
  const records = [...(yield* (yield* Registry).inventory).values()]
  return records
    .filter(({ id }) => id > after)
    .toSorted((one, other) => (one.id < other.id ? -1 : 1))
    .slice(0, sandboxListMax)
    .map(sandboxSummary)
})

const inspect = Effect.fnUntraced(function* (sandbox: SandboxId) {
  const record = yield* (yield* Registry).get(sandbox)
  return inspectionView(record, yield* lookAtReadiness(record))
})

const exec = Effect.fnUntraced(function* (sandbox: SandboxId, request: ExecutionRequest) {
  const supervisor = yield* GuestSupervisor
  const { uuid } = yield* Identifiers
  yield* nodeAnswering(requireRunning(sandbox, "exec"))
  const started = { _tag: "Started", execution: LeaseId.make(yield* uuid) } as const
  return yield* startedStream(
    Stream.concat(
      Stream.make(started),
      Stream.mapError(supervisor.execute(sandbox, commandOf(request)), nodeAnswerOf)
    )
  )
})

/** A guest at which the machine fails has no endpoint, whatever else it has. */
const endpoint = Effect.fnUntraced(function* (sandbox: SandboxId, port: number) {
  const { path } = yield* lookUpEndpoint(sandbox, port).pipe(
    Effect.catchTag("GuestFailure", ({ message }) =>
      Effect.fail(new EndpointUnavailable({ sandbox, why: message }))
    )
  )
  return { sandbox, port, path }
})

const pause = Effect.fnUntraced(function* (sandbox: SandboxId) {
  yield* Effect.flatMap(requireKept(sandbox, "pause"), requireAlive)
  return sandboxView(yield* pauseSandbox(sandbox))
})

const resume = Effect.fnUntraced(function* (sandbox: SandboxId) {
  yield* Effect.flatMap(requireKept(sandbox, "resume"), requireAlive)
  return sandboxView(yield* requireReady(yield* resumeSandbox(sandbox)))
})

const signal = Effect.fnUntraced(function* (sandbox: SandboxId, sent: GuestSignal) {
  yield* signalSandbox(sandbox, sent)
  return sandboxView(yield* (yield* Registry).get(sandbox))
})

const stop = Effect.fnUntraced(function* (sandbox: SandboxId, graceMillis: number) {
  yield* stopSandbox(sandbox, { graceMillis })
  return sandboxView(yield* (yield* Registry).get(sandbox))
})

const renew = Effect.fnUntraced(function* (sandbox: SandboxId, lifeSeconds: number) {
  const { lifeSecondsMax } = yield* NodeTerms
  return sandboxView(yield* renewSandbox(sandbox, { lifeSeconds, lifeSecondsMax }))
})

/** What keeps an intended deletion from its proof is an answer; the sweep tries again. */
const remove = Effect.fnUntraced(function* (sandbox: SandboxId) {
  const { actor } = yield* NodeTerms
  return yield* deleteSandbox(sandbox, { reason: "user", actor }).pipe(
    Effect.map(deletedView),
    Effect.catchTag(
      ["AbsenceNotProved", "GuestFailure", "GuestStateRefused", "RunStateFailure"],
      ({ message }) => Effect.succeed(pendingView(sandbox, message))
    )
  )
})

const why = (sandbox: SandboxId) => Effect.map(whySandbox(sandbox), (steps) => ({ sandbox, steps }))

export const layerNode = HttpApiBuilder.group(NodeApi, "node", (handlers) =>
  handlers.handleAll({ readiness: () => readiness })
)

export const layerSandboxes = HttpApiBuilder.group(
  NodeApi,
  "sandboxes",
  Effect.fnUntraced(function* (handlers) {
    const scope = yield* Effect.scope
    const context = yield* Effect.context<Needs>()
    /** Goes on in the daemon's scope, whoever hangs up. */
    const detached = <A, E extends { readonly code: string; readonly message: string }>(
      change: Effect.Effect<A, E, Needs>
    ) =>
      nodeAnswering(Effect.flatMap(Effect.forkIn(Effect.provideContext(change, context), scope), Fiber.join))
    return handlers.handleAll({
      create: ({ payload }) => detached(create(payload)),
      list: ({ query }) => nodeAnswering(list(query.after ?? "")),
      inspect: ({ params }) => nodeAnswering(inspect(params.sandbox)),
      delete: ({ params }) => detached(remove(params.sandbox)),
      why: ({ params }) => nodeAnswering(why(params.sandbox)),
      exec: ({ params, payload }) => exec(params.sandbox, payload),
      endpoint: ({ params, payload }) => detached(endpoint(params.sandbox, payload.port)),
      pause: ({ params }) => detached(pause(params.sandbox)),
      resume: ({ params }) => detached(resume(params.sandbox)),
      signal: ({ params, payload }) => detached(signal(params.sandbox, payload.signal)),
      stop: ({ params, payload }) =>
        detached(stop(params.sandbox, payload.graceMillis ?? guestStopGraceMillis)),
      renew: ({ params, payload }) => detached(renew(params.sandbox, payload.lifeSeconds))
    })
  })
)
