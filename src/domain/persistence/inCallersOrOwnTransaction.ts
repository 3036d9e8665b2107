/**
 * Joins the transaction that is open in this fiber, else opens a short one. The only place where the caller's
 * transaction and one's own are interchangeable: `saveOperation` and `appendLog` are such writes. Source: SP-TX-06.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type InCallersOrOwnTransaction, type PluginDb, PluginTx } from "./PluginDb.ts"

/**
 * Makes the choice for one root handle. A caller's transaction decides alone over commit and rollback of what
 * joined it; a caller whose transaction has ended gets `TransactionEnded` from the body's first statement.
 */
export const inCallersOrOwnTransaction =
  (db: PluginDb["Service"]): InCallersOrOwnTransaction =>
  (operation, body) =>
    Effect.flatMap(Effect.serviceOption(PluginTx), (tx) =>
      Option.isSome(tx) ? Effect.provideService(body, PluginTx, tx.value) : db.transaction(operation, body)
    )
