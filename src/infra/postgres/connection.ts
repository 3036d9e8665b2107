/**
 * How a handle reaches its database: address, schema, bounds of its connections, and the session settings that each
 * of them starts with. Opens nothing itself.
 */
import type * as PgPool from "@effect/sql-pg/PgPool"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Bounds from "../../domain/Bounds.ts"

/** Where the database is. `host` that begins with a slash is the directory of its socket. */
export type Address =
  | { readonly host: string; readonly username: string; readonly database: string }
  | { readonly url: string }

export interface Options {
  readonly address: Address
  /** The schema that the host supplies, unquoted. */
  readonly schema: string
  /** Connections for single statements, and as many again for transactions, each made when first needed. */
  readonly connectionsMax?: number
  readonly applicationName?: string
}

/** An identifier as SQL text. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** The name of a schema is not one that PostgreSQL keeps as it is. Refused: empty, too long, a zero byte, reserved. */
export class SchemaNameRefused extends Schema.TaggedError<SchemaNameRefused>()("SchemaNameRefused", {
  schema: Schema.String
}) {
  readonly code = "schema_name_refused"
  override get message(): string {
    return `the schema name ${JSON.stringify(this.schema)} cannot be used: it must have 1 to ${Bounds.databaseNameBytesMax} bytes and not begin with pg_`
  }
}

/** Answers the name when PostgreSQL takes it unchanged. Bound: `databaseNameBytesMax`. */
export const checkedSchema = (schema: string): Effect.Effect<string, SchemaNameRefused> => {
  const bytes = Buffer.byteLength(schema)
  const taken =
    bytes > 0 && bytes <= Bounds.databaseNameBytesMax && !schema.includes("\0") && !schema.startsWith("pg_")
  return taken ? Effect.succeed(schema) : Effect.fail(new SchemaNameRefused({ schema }))
}

/** The driver's own form of an address. */
export const endpoint = (address: Address) =>
  "url" in address ? { url: Redacted.make(address.url) } : address

/**
 * Configuration of one pool. The search path is the supplied schema alone, so nothing is found or made in `public`;
 * the server ends statements, lock waits and idle transactions that take too long. A session plans a statement once,
 * often while its tables are still empty: it does not settle on reading them whole where there is an index.
 * Source: SP-DB-06.
 */
export const poolConfig = (options: Options): PgPool.Config => ({
  ...endpoint(options.address),
  maxConnections: options.connectionsMax ?? Bounds.databasePoolConnectionsDefault,
  idleTimeout: Bounds.databaseIdleConnectionMillisMax,
  connectTimeout: Bounds.databaseConnectMillisMax,
  keepAlive: "30 seconds",
  applicationName: options.applicationName ?? "holdfast",
  startupParameters: {
    search_path: quoted(options.schema),
    timezone: "UTC",
    enable_seqscan: "off",
    statement_timeout: String(Bounds.databaseStatementMillisMax),
    lock_timeout: String(Bounds.databaseLockWaitMillisMax),
    idle_in_transaction_session_timeout: String(Bounds.databaseIdleInTransactionMillisMax)
  }
})

/**
 * The pool of the transactions: a connection is lent to one of them, which may have several statements on the wire.
 * Outside of a transaction its sessions only read, so that what was sent after a BEGIN that the server refused cannot
 * be stored by itself.
 */
export const transactionPoolConfig = (options: Options): PgPool.Config => {
  const config = poolConfig(options)
  return {
    ...config,
    multiplex: true,
    multiplexConcurrency: 1,
    startupParameters: { ...config.startupParameters, default_transaction_read_only: "on" }
  }
}
