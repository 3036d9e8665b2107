/** P16's own contenders: the product's two handles, in the composed form and in the pipelined one. */
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import { PluginTx, type Query } from "../../src/domain/persistence/PluginDb.ts"
import { make } from "../../src/infra/postgres/PluginDb.ts"
import { loopEffects, openConnections } from "./closedLoop.ts"
import type { Contender } from "./definition.ts"
import type { PlainSettings } from "./plainPg.ts"
import { transactionContender, transactionStatements } from "./transactionWork.ts"

/** Tracing is on and the caller has decided against a sample: what most requests of a daemon are. */
export const sampledOut = Effect.withParentSpan(
  Tracer.externalSpan({
    traceId: "0af7651916cd43dd8448eb211c80319c",
    spanId: "b7ad6b7169203331",
    sampled: false
  })
)

/** The product's handle on the database of a benchmark, with a connection for each worker. */
export const handleOn = (settings: PlainSettings, schema: string, connectionsMax: number) =>
  make({
    address: { host: settings.host, username: settings.user, database: settings.database },
    schema,
    connectionsMax
  })

const queriesOf = (worker: number, call: number): ReadonlyArray<Query> =>
  transactionStatements(worker, call).map(({ name, text, values }) => ({
    operation: name,
    text,
    parameters: values
  }))

/** `PluginDb.transaction`: each statement asked for on the bound handle, one after another. */
export const composedTransactions = (settings: PlainSettings): Contender =>
  transactionContender("PluginDb.transaction", settings, (load) =>
    Effect.gen(function* () {
      const db = yield* handleOn(settings, "public", load.workers)
      const body = (queries: ReadonlyArray<Query>) =>
        Effect.gen(function* () {
          const tx = yield* PluginTx
          for (const query of queries) yield* tx.query(query)
        })
      yield* openConnections(load, (text) =>
        db.transaction("bench.open", body([{ operation: "open", text }]))
      )
      return yield* loopEffects(load, (worker, call) =>
        db.transaction("bench.transaction", body(queriesOf(worker, call)))
      )
    }).pipe(sampledOut, Effect.scoped)
  )

/** `PluginDb.pipelined`: the same statements sent at once, with one wait. */
export const pipelinedTransactions = (settings: PlainSettings): Contender =>
  transactionContender("PluginDb.pipelined", settings, (load) =>
    Effect.gen(function* () {
      const db = yield* handleOn(settings, "public", load.workers)
      yield* openConnections(load, (text) => db.pipelined("bench.open", [{ operation: "open", text }]))
      return yield* loopEffects(load, (worker, call) =>
        db.pipelined("bench.pipelined", queriesOf(worker, call))
      )
    }).pipe(sampledOut, Effect.scoped)
  )
