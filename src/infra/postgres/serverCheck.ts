/**
 * Looks at the database server before anything is built on it: is it there, does it let us in, is it new enough.
 * Tells the operator in one sentence; says nothing of credentials or of the server's own words.
 */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { databaseConnectMillisMax, databaseVersionMin } from "../../domain/Bounds.ts"
import { type StorageFailure, StorageFault } from "../../domain/persistence/PluginDb.ts"
import { type Address, endpoint } from "./connection.ts"
import { onRealClock } from "./postmaster.ts"
import { storageFailure } from "./storageFailure.ts"

const advice = (fault: StorageFault): string =>
  fault === "authentication"
    ? "it does not let this user in: check the user and the password"
    : "it does not answer, or has no such database: start it, or check the address"

/** The database cannot be used. `place` is where it was looked for, without credentials. */
export class DatabaseUnavailable extends Schema.TaggedError<DatabaseUnavailable>()("DatabaseUnavailable", {
  place: Schema.String,
  fault: StorageFault,
  state: Schema.NullOr(Schema.String)
}) {
  readonly code = "database_unavailable"
  override get message(): string {
    return `the database at ${this.place} cannot be used; ${advice(this.fault)}`
  }
}

/** The server is older than this product can work with. */
export class DatabaseTooOld extends Schema.TaggedError<DatabaseTooOld>()("DatabaseTooOld", {
  place: Schema.String,
  found: Schema.Int,
  needed: Schema.Int
}) {
  readonly code = "database_too_old"
  override get message(): string {
    return `the database at ${this.place} runs PostgreSQL ${this.found}, and ${this.needed} or newer is needed: upgrade it`
  }
}

/** Where an address points, fit for a message: no user, no password, no parameters. */
export const placeOf = (address: Address): string => {
  if (!("url" in address)) return `${address.host}/${address.database}`
  if (!URL.canParse(address.url)) return "an address that cannot be read"
  const url = new URL(address.url)
  return `${url.host || (url.searchParams.get("host") ?? "")}${url.pathname}`
}

const major = (versionNumber: unknown): number => Math.floor(Number(versionNumber) / 10_000)

/**
 * Connects once and answers the server's major version. Refused: `DatabaseUnavailable`, `DatabaseTooOld`.
 * Bounds: `databaseVersionMin`, `databaseConnectMillisMax`.
 */
export const requireServer = Effect.fn("serverCheck.requireServer")(function* (address: Address) {
  const place = placeOf(address)
  const look = Effect.flatMap(
    PgConnection.make({ ...endpoint(address), connectTimeout: databaseConnectMillisMax }),
    (connection) => connection.query("select current_setting('server_version_num') as version", [], false)
  )
  const { rows } = yield* Effect.scoped(onRealClock(look)).pipe(
    Effect.mapError((error): StorageFailure => storageFailure("serverCheck.requireServer", error)),
    Effect.mapError(({ fault, state }) => new DatabaseUnavailable({ place, fault, state }))
  )
  const found = major(rows[0]?.["version"])
  if (found < databaseVersionMin) {
    return yield* new DatabaseTooOld({ place, found, needed: databaseVersionMin })
  }
  return found
})
