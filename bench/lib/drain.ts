/** P4's own contender: the product's dispatcher claims as many as there is room for, and each operation is ended. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { sharedCallsAtOnceMax } from "../../src/domain/Bounds.ts"
import { claimUntilEmpty } from "../../src/domain/operations/claims.ts"
import type { Operation } from "../../src/domain/operations/Operation.ts"
import { settleOperation } from "../../src/domain/operations/settlement.ts"
import { PluginDb } from "../../src/domain/persistence/PluginDb.ts"
import * as OperationRows from "../../src/infra/postgres/OperationRows.ts"
import * as OperationStore from "../../src/infra/postgres/OperationStore.ts"
import { pluginSchema, quiet } from "./admission.ts"
import { openConnections } from "./closedLoop.ts"
import { claimant } from "./cycleWork.ts"
import type { Contender } from "./definition.ts"
import { drainContender, timedDrain } from "./drainWork.ts"
import { handleOn, sampledOut } from "./handles.ts"
import type { PlainSettings } from "./plainPg.ts"

/** Operations that one claimant asks for at a time; it has room for as many again, which end meanwhile. */
const claimedMax = 256

/** Claims while what was claimed before is ended, as a daemon does whose executions end one by one. */
const claimAndEnd = Effect.gen(function* () {
  let held: Array<Operation> = []
  let ending: Fiber.Fiber<unknown, unknown> | undefined
  const room = Effect.gen(function* () {
    if (ending !== undefined) yield* Fiber.join(ending)
    const ends = held.map((operation) => settleOperation(operation, { state: "succeeded" }))
    held = []
    ending = yield* Effect.forkChild(Effect.all(ends, { concurrency: "unbounded", discard: true }))
    return claimedMax
    // The port of room has no failure: one of the database's voids the run.
  }).pipe(Effect.orDie)
  const take = (operation: Operation) => Effect.sync(() => void held.push(operation))
  yield* claimUntilEmpty(claimant, { room, take })
  yield* room
  yield* room
})

/** As many claimants as there are workers, each with as many connections as it needs at once. */
export const productDrain = (settings: PlainSettings): Contender =>
  drainContender("claimUntilEmpty, settleOperation", settings, (load) =>
    Effect.gen(function* () {
      const connections = sharedCallsAtOnceMax + load.workers
      const db = yield* handleOn(settings, pluginSchema, connections)
      yield* openConnections({ ...load, workers: connections }, (text) =>
        db.query({ operation: "bench.open", text })
      )
      const stores = Layer.merge(OperationStore.layer, OperationRows.layer)
      const layers = Layer.merge(stores.pipe(Layer.provide(Layer.succeed(PluginDb, db))), quiet)
      const all = Effect.all(
        Array.from({ length: load.workers }, () => claimAndEnd),
        { concurrency: "unbounded", discard: true }
      )
      return yield* Effect.provide(timedDrain(settings, all), layers)
    }).pipe(sampledOut, Effect.scoped)
  )
