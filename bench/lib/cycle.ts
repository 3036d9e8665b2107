/** P3's own contender: the product's programs, from a caller's request to the settled and trimmed receipt. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { ProjectId } from "../../src/domain/Identity.ts"
import { claimNext } from "../../src/domain/operations/claims.ts"
import { settleOperation } from "../../src/domain/operations/settlement.ts"
import { PluginDb } from "../../src/domain/persistence/PluginDb.ts"
import * as OperationRows from "../../src/infra/postgres/OperationRows.ts"
import * as OperationStore from "../../src/infra/postgres/OperationStore.ts"
import { admitStart, pluginSchema, quiet } from "./admission.ts"
import { loopEffects, openConnections } from "./closedLoop.ts"
import { claimant, cycleContender, cycleProjects } from "./cycleWork.ts"
import type { Contender } from "./definition.ts"
import { handleOn, sampledOut } from "./handles.ts"
import type { PlainSettings } from "./plainPg.ts"

/** Another worker may have this one's operation, and his own may not be seen yet. */
const claimOne = Effect.repeat(claimNext(claimant), { until: Option.isSome }).pipe(
  Effect.map((claimed) => Option.getOrThrow(claimed))
)

/** Admission, claim and settlement, each of them published. */
export const productCycle = (settings: PlainSettings): Contender =>
  cycleContender("admit, claim, settle", settings, (load) =>
    Effect.gen(function* () {
      const db = yield* handleOn(settings, pluginSchema, load.workers)
      const stores = Layer.merge(OperationStore.layer, OperationRows.layer)
      const layers = Layer.merge(stores.pipe(Layer.provide(Layer.succeed(PluginDb, db))), quiet)
      let turn = 0
      const cycle = Effect.gen(function* () {
        turn += 1
        yield* admitStart(ProjectId.make(1 + (turn % cycleProjects)), `key-${turn}`)
        const claimed = yield* claimOne
        yield* settleOperation({ ...claimed, claimedBy: claimant.toString() }, { state: "succeeded" })
      })
      yield* openConnections(load, (text) => db.query({ operation: "bench.open", text }))
      return yield* loopEffects(load, () => cycle).pipe(Effect.provide(layers))
    }).pipe(sampledOut, Effect.scoped)
  )
