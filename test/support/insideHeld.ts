/** A store's own statements inside a transaction that stays open at a barrier, so that another backend waits for them. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { PluginDb, PluginTx } from "../../src/domain/persistence/PluginDb.ts"

/**
 * For the store of that adapter: carries `act` out, stays open until `held` ends, and ends as `end` says; a failure of it
 * rolls back. Inside the transaction the handle's own guard would refuse it: only the texts of the adapter are wanted.
 */
export const insideHeldOf =
  <Self, Store>(service: Context.Key<Self, Store>, adapter: Layer.Layer<Self, never, PluginDb>) =>
  <A>(
    act: (store: Store) => Effect.Effect<A, unknown>,
    held: Effect.Effect<void>,
    end: Effect.Effect<void, string> = Effect.void
  ) =>
    PluginDb.use((db) =>
      db.transaction(
        "test.held",
        Effect.gen(function* () {
          const tx = yield* PluginTx
          const joined = PluginDb.of({ ...db, query: (query) => Effect.orDie(tx.query(query)) })
          const context = yield* Layer.build(
            Layer.fresh(adapter).pipe(Layer.provide(Layer.succeed(PluginDb, joined)))
          )
          const answer = yield* act(Context.get(context, service))
          yield* held
          yield* end
          return answer
        }).pipe(Effect.scoped)
      )
    )
