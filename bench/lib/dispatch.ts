/** P5's own contenders: an admission, and the product's dispatcher in the same process, who learns of it. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { databasePoolConnectionsDefault, operationsAtOnceMax } from "../../src/domain/Bounds.ts"
import { ProjectId } from "../../src/domain/Identity.ts"
import { dispatch } from "../../src/domain/operations/claims.ts"
import type { Operation } from "../../src/domain/operations/Operation.ts"
import { settleOperation } from "../../src/domain/operations/settlement.ts"
import { PluginDb } from "../../src/domain/persistence/PluginDb.ts"
import * as OperationRows from "../../src/infra/postgres/OperationRows.ts"
import * as OperationStore from "../../src/infra/postgres/OperationStore.ts"
import { admitStart, pluginSchema, quiet } from "./admission.ts"
import { openConnections } from "./closedLoop.ts"
import { claimant, cycleContender, cycleProjects } from "./cycleWork.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { latencyFigures, paced } from "./dispatchWork.ts"
import { handleOn, sampledOut } from "./handles.ts"
import type { PlainSettings } from "./plainPg.ts"

/**
 * Asks for operations beside a working dispatcher that ends each one it takes. `ask` answers when the operation is at
 * work, with the time from the call on; `rest` waits until all have ended.
 */
const asking = Effect.gen(function* () {
  const taken = new Map<number, Deferred.Deferred<void>>()
  const ends = yield* FiberSet.make<unknown, unknown>()
  const take = (operation: Operation) =>
    Effect.gen(function* () {
      const waiting = taken.get(operation.project)
      if (waiting !== undefined) yield* Deferred.succeed(waiting, undefined)
      yield* FiberSet.run(ends, settleOperation(operation, { state: "succeeded" }))
    })
  const workers = { room: Effect.succeed(operationsAtOnceMax), take }
  const dispatcher = yield* Effect.forkScoped(dispatch(claimant, workers))
  let turn = 0
  const ask = Effect.suspend(() => {
    turn += 1
    const project = ProjectId.make(1 + (turn % cycleProjects))
    const waiting = Deferred.makeUnsafe<void>()
    taken.set(project, waiting)
    const begun = performance.now()
    return Effect.as(Effect.andThen(admitStart(project, `key-${turn}`), Deferred.await(waiting)), begun)
  }).pipe(Effect.map((begun) => performance.now() - begun))
  const rest = Effect.andThen(FiberSet.awaitEmpty(ends), Fiber.interrupt(dispatcher))
  return { ask, rest }
})

const onDispatcher = (
  name: string,
  settings: PlainSettings,
  measure: (ask: Effect.Success<typeof asking>["ask"], load: Load) => Effect.Effect<Figures, unknown, Needs>
): Contender =>
  cycleContender(name, settings, (load) =>
    Effect.gen(function* () {
      const db = yield* handleOn(settings, pluginSchema, databasePoolConnectionsDefault)
      const stores = Layer.merge(OperationStore.layer, OperationRows.layer)
      const layers = Layer.merge(stores.pipe(Layer.provide(Layer.succeed(PluginDb, db))), quiet)
      yield* openConnections({ ...load, workers: databasePoolConnectionsDefault }, (text) =>
        db.query({ operation: "bench.open", text })
      )
      return yield* Effect.gen(function* () {
        const { ask, rest } = yield* asking
        return yield* Effect.tap(measure(ask, load), rest)
      }).pipe(Effect.provide(layers))
    }).pipe(sampledOut, Effect.scoped)
  )

type Needs = Effect.Services<Effect.Success<typeof asking>["ask"]>

/** One request at a time. `p99Ratio` compares with the latest run of the peer. */
export const productDispatch = (settings: PlainSettings, peerMillis: () => number): Contender =>
  onDispatcher("admitOperation, dispatch", settings, (ask, load) =>
    Effect.map(paced(load, ask), ({ all, millis }) => {
      const figures = latencyFigures(millis, all)
      return { ...figures, p99Ratio: (figures["p99Millis"] ?? Number.NaN) / peerMillis() }
    })
  )

const racers = 16
const raced = 20_000
const lostMillis = 5_000

/** Many at once, as fast as they can: an operation that nobody takes in time was not signalled, and voids the run. */
export const racingDispatch = (settings: PlainSettings): Contender =>
  onDispatcher("admitOperation, dispatch, 16 at once", settings, (ask) =>
    Effect.gen(function* () {
      const millis: Array<number> = []
      const one = Effect.flatMap(Effect.timeoutOption(ask, lostMillis), (taken) =>
        Option.isNone(taken)
          ? Effect.fail(new Error("a wake-up was lost"))
          : Effect.sync(() => void millis.push(taken.value))
      )
      yield* Effect.forEach(Array.from({ length: raced }), () => one, { concurrency: racers, discard: true })
      return latencyFigures(millis, raced)
    })
  )
