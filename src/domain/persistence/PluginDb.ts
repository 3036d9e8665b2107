/**
 * The two database handles. `PluginDb` is the root: it runs standalone statements and opens transactions.
 * `PluginTx` is bound to one connection and one transaction: it runs statements and can open nothing.
 * Three guards keep them apart: the type of `transaction`, a check at run time, and the end of the bound handle.
 * Statement texts belong to the adapters in infra; a domain program only asks for `PluginTx` in its requirements.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/**
 * The mark of a port that reaches outside the database (files, guests, the root handle). A transaction's body
 * whose requirements contain a marked port does not compile. Source: SP-TX-02, SP-TX-08.
 */
export declare const OutsideTransaction: unique symbol

export interface MarkedOutsideTransaction {
  readonly [OutsideTransaction]: true
}

/** One row by column name. int8 comes as bigint, jsonb parsed, timestamptz as Date; who reads a row converts it. */
export type SqlRow = Readonly<Record<string, unknown>>

/** One statement with its parameters. `operation` is the name that failures and spans carry, never the text. */
export interface Query {
  readonly operation: string
  readonly text: string
  readonly parameters?: ReadonlyArray<unknown>
}

export const StorageFault = Schema.Literals([
  "connection",
  "serialization",
  "lock",
  "timeout",
  "unique",
  "constraint",
  "readonly",
  "authentication",
  "refused",
  "query"
])
export type StorageFault = typeof StorageFault.Type

/**
 * The database failed or refused a statement. Carries the operation's name and the SQLSTATE, never a row, a
 * parameter or the server's text. `fault: "refused"` is a guard of ours that raised (class `HF`): `state` tells which.
 */
export class StorageFailure extends Schema.TaggedError<StorageFailure>()("StorageFailure", {
  operation: Schema.String,
  fault: StorageFault,
  /** SQLSTATE of five characters, or null where no server answered. */
  state: Schema.NullOr(Schema.String),
  /** Name of the violated constraint, or null. */
  constraint: Schema.NullOr(Schema.String)
}) {
  readonly code = "storage_failure"
  /** Whether the same call may succeed when it is made again. */
  get retryable(): boolean {
    return this.fault === "serialization" || this.fault === "lock" || this.fault === "connection"
  }
  override get message(): string {
    return `the database did not carry out ${this.operation} (${this.fault}${this.state === null ? "" : `, SQLSTATE ${this.state}`})`
  }
}

/**
 * COMMIT was sent and its answer never came: the writes are durable or not, and only a read by idempotency key
 * can tell. Never retried blindly. Source: BX-04.
 */
export class CommitUnknown extends Schema.TaggedError<CommitUnknown>()("CommitUnknown", {
  operation: Schema.String
}) {
  readonly code = "commit_unknown"
  override get message(): string {
    return `the database did not answer the commit of ${this.operation}: read the outcome before trying again`
  }
}

/** A bound handle was used after its transaction had ended. Nothing reached a connection. Source: SP-TX-03. */
export class TransactionEnded extends Schema.TaggedError<TransactionEnded>()("TransactionEnded", {
  operation: Schema.String
}) {
  readonly code = "transaction_ended"
  override get message(): string {
    return `${this.operation} used a transaction that has ended`
  }
}

/** The defect of a root handle used, or a transaction opened, inside a transaction. Source: SP-TX-02. */
export class HandleMisuse extends Data.TaggedError("HandleMisuse")<{ readonly call: string }> {
  override get message(): string {
    return `${this.call} was called while a transaction is open in this fiber: use the PluginTx that the transaction provides`
  }
}

export type StorageError = StorageFailure | CommitUnknown

/** Handle of one open transaction. Only `PluginDb.transaction` and `PluginDb.snapshot` provide it. */
export class PluginTx extends Context.Service<
  PluginTx,
  {
    /** Runs one statement on the transaction's connection. */
    readonly query: (query: Query) => Effect.Effect<ReadonlyArray<SqlRow>, StorageFailure | TransactionEnded>
    /**
     * Runs the effect once the transaction has committed and its connection is free again, in order, also when the
     * caller was interrupted meanwhile, so it must be short. A transaction that rolled back drops it.
     * Source: SP-TX-09.
     */
    readonly afterCommit: (effect: Effect.Effect<void>) => Effect.Effect<void, TransactionEnded>
    /** True in a `snapshot`: reads take no row locks there. Source: SP-TX-05. */
    readonly readOnly: boolean
  }
>()("holdfast/domain/persistence/PluginDb/PluginTx") {}

/** What a transaction's body may require: no marked port. The property's name is what the compiler shows. */
export type InsideTransaction<R> = [Extract<R, MarkedOutsideTransaction>] extends [never]
  ? unknown
  : {
      readonly "a port that reaches outside the database cannot be used inside a transaction": Extract<
        R,
        MarkedOutsideTransaction
      >
    }

/** Root handle. Used while a `PluginTx` is open in the same fiber, every method dies with `HandleMisuse`. */
export class PluginDb extends Context.Service<
  PluginDb,
  {
    /**
     * The schema that the host supplied, as it is (not quoted). It is the only one in the search path of every
     * connection, so statements name the plugin's objects plainly and the host's as `core.…`. Source: SP-DB-06.
     */
    readonly schema: string
    /** Runs one statement as its own transaction. */
    readonly query: (query: Query) => Effect.Effect<ReadonlyArray<SqlRow>, StorageFailure>
    /**
     * Runs the body in one READ COMMITTED transaction: committed when it succeeds, rolled back when it fails,
     * dies or is interrupted. Never retried here: the body may have been observed.
     */
    readonly transaction: <A, E, R>(
      operation: string,
      body: Effect.Effect<A, E, R> & InsideTransaction<R>
    ) => Effect.Effect<A, E | StorageError, Exclude<R, PluginTx>>
    /** Runs the body in one REPEATABLE READ READ ONLY transaction: one snapshot, no row locks. Source: SP-TX-05. */
    readonly snapshot: <A, E, R>(
      operation: string,
      body: Effect.Effect<A, E, R> & InsideTransaction<R>
    ) => Effect.Effect<A, E | StorageError, Exclude<R, PluginTx>>
    /**
     * Sends all statements of one transaction at once and waits once. Safe only when every guard among them
     * raises: the server then skips the rest and turns COMMIT into ROLLBACK. Once sent it is not interrupted.
     * Dies with more than `transactionStatementsPipelinedMax` statements.
     */
    readonly pipelined: (
      operation: string,
      queries: ReadonlyArray<Query>
    ) => Effect.Effect<ReadonlyArray<ReadonlyArray<SqlRow>>, StorageError>
  }
>()("holdfast/domain/persistence/PluginDb/PluginDb") {
  declare readonly [OutsideTransaction]: true
}
