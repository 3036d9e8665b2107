/** A clone with a table to write on, and the few statements that the tests of both handles share. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { PluginDb, PluginTx, type Query, type SqlRow } from "../../../src/domain/persistence/PluginDb.ts"
import { Clone, clone } from "../../support/clone.ts"

export const statement = (text: string, parameters: ReadonlyArray<unknown> = []): Query => ({
  operation: `test ${text.split(" ", 1)[0]}`,
  text,
  parameters
})

/** Runs a statement on the transaction that is open. */
export const inside = (text: string, parameters?: ReadonlyArray<unknown>) =>
  Effect.flatMap(PluginTx, (tx) => tx.query(statement(text, parameters)))

/** Runs a statement on the root handle. */
export const atRoot = (text: string, parameters?: ReadonlyArray<unknown>) =>
  Effect.flatMap(PluginDb, (db) => db.query(statement(text, parameters)))

export const insert = (id: number) => inside("insert into scratch (id) values ($1)", [id])

/** What the rows of the scratch table are, as somebody else sees them. */
export const ids = Effect.flatMap(Clone, (each) =>
  Effect.map(each.admin("select id from scratch order by id"), (rows: ReadonlyArray<SqlRow>) =>
    rows.map((row) => Number(row["id"]))
  )
)

/** A clone with the scratch table; `connectionsMax` is that of its root handle. */
export const scratch = (connectionsMax = 4): Layer.Layer<Clone | PluginDb> =>
  Layer.effectDiscard(
    Effect.flatMap(Clone, (each) =>
      each.admin("create table scratch (id int primary key, note text not null default '')")
    )
  ).pipe(Layer.provideMerge(clone(connectionsMax)))
