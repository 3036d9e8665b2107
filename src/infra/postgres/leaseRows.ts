/**
 * Rows of environment leases as the domain has them, and JSON as the database takes it. Columns were checked when they
 * were written; metadata is whatever it is, and who decides on it reads it with care.
 */
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import { EnvironmentLease } from "../../domain/environments/EnvironmentLease.ts"
import type { NewEnvironmentLease } from "../../domain/environments/EnvironmentLeaseStore.ts"
import { isJsonObject, type JsonObject } from "../../domain/Json.ts"
import {
  CommitUnknown,
  type PluginDb,
  type SqlRow,
  type StorageError,
  type StorageFailure
} from "../../domain/persistence/PluginDb.ts"
import { firstOf, modelOf } from "./rows.ts"
import { answerLost } from "./storageFailure.ts"

type Fields = { -readonly [Key in keyof EnvironmentLease]: EnvironmentLease[Key] }

const millisOf = (value: unknown): number | null => (value instanceof Date ? value.getTime() : null)

export const leaseOf = (row: SqlRow): EnvironmentLease => {
  const fields: Fields = {
    id: row["id"] as Fields["id"],
    tenant: row["tenant_id"] as Fields["tenant"],
    environment: row["environment_id"] as Fields["environment"],
    executionWorkspace: row["execution_workspace_id"] as Fields["executionWorkspace"],
    task: row["task_id"] as Fields["task"],
    run: row["run_id"] as Fields["run"],
    status: row["status"] as Fields["status"],
    policy: row["lease_policy"] as Fields["policy"],
    provider: row["provider"] as Fields["provider"],
    providerLeaseId: row["provider_lease_id"] as Fields["providerLeaseId"],
    expiresAtMillis: millisOf(row["expires_at"]),
    releasedAtMillis: millisOf(row["released_at"]),
    failureReason: row["failure_reason"] as Fields["failureReason"],
    cleanupStatus: row["cleanup_status"] as Fields["cleanupStatus"],
    metadata: isJsonObject(row["metadata"]) ? row["metadata"] : {},
    sentConfig: isJsonObject(row["sent_config"]) ? row["sent_config"] : null,
    cleanupTries: Number(row["cleanup_tries"]),
    needsOperator: row["needs_operator"] === true,
    endedBy: row["ended_by"] as Fields["endedBy"],
    createdAtMillis: (row["created_at"] as Date).getTime()
  }
  return modelOf<EnvironmentLease>(EnvironmentLease.prototype, fields)
}

/** A lease as its acquisition has just written it: what was asked for, what the row was given, and its defaults. */
export const newLeaseOf = (lease: NewEnvironmentLease, row: SqlRow): EnvironmentLease => {
  const { environment, executionWorkspace, expiresAtMillis, id, policy, provider, providerLeaseId } = lease
  const { metadata, run, sentConfig, task, tenant } = lease
  const fields: Fields = {
    id,
    tenant,
    environment,
    executionWorkspace,
    task,
    run,
    status: "active",
    policy,
    provider,
    providerLeaseId,
    expiresAtMillis,
    releasedAtMillis: null,
    failureReason: null,
    cleanupStatus: null,
    metadata: stored(metadata),
    sentConfig: sentConfig === null ? null : stored(sentConfig),
    cleanupTries: 0,
    needsOperator: false,
    endedBy: null,
    createdAtMillis: (row["created_at"] as Date).getTime()
  }
  return modelOf<EnvironmentLease>(EnvironmentLease.prototype, fields)
}

export const leasesOf = (rows: ReadonlyArray<SqlRow>): ReadonlyArray<EnvironmentLease> => rows.map(leaseOf)

export const leaseIn = (rows: ReadonlyArray<SqlRow>): Option.Option<EnvironmentLease> =>
  firstOf(rows, leaseOf)

/** jsonb refuses zero characters and halves of pairs, and what a provider returned may have either. */
const storable = (text: string): string =>
  text.isWellFormed() && !text.includes("\0") ? text : text.toWellFormed().replaceAll("\0", "\uFFFD")

const storableValue = (_: string, value: unknown): unknown => {
  if (typeof value === "string") return storable(value)
  if (!isJsonObject(value)) return value
  return Object.keys(value).every((key) => storable(key) === key)
    ? value
    : Object.fromEntries(Object.entries(value).map(([key, inner]) => [storable(key), inner]))
}

/** The text of a jsonb parameter; null stays null. What jsonb could not hold is written as the replacement character. */
export const jsonText = (value: object | null): string | null =>
  value === null ? null : JSON.stringify(value, storableValue)

/** What is read again of an object that was written. */
const stored = (value: JsonObject): JsonObject =>
  JSON.parse(JSON.stringify(value, storableValue)) as JsonObject

export type Run = (
  method: string,
  text: string,
  parameters?: ReadonlyArray<unknown>
) => Effect.Effect<ReadonlyArray<SqlRow>, StorageFailure>

/** Runs a standalone statement under its operation's name. */
export const runner =
  (db: PluginDb["Service"], port: string): Run =>
  (method, text, parameters = []) =>
    db.query({ operation: `${port}.${method}`, text, parameters })

/**
 * A write whose answer was lost on the way may have been done: it is its own commit. Who asked has to read the row before
 * he decides on anything. Source: BX-04.
 */
export const unknownWhenUnanswered = <A>(
  write: Effect.Effect<A, StorageFailure>
): Effect.Effect<A, StorageError> =>
  Effect.mapError(write, (failure) =>
    answerLost(failure) ? new CommitUnknown({ operation: failure.operation }) : failure
  )
