/**
 * Every advisory lock key, in one append-only list: a key is one bigint, its class in the highest byte and what is
 * locked in the seven below, so that keys of two classes cannot meet. Numbers are never reused. Source: SP-TX-07.
 */
import { createHash } from "node:crypto"

/**
 * Class numbers of advisory locks, 1 to 127. Append only. 4 and 5 are kept for the host's own claims, capacity and ports,
 * which a node's registry serializes: docs/decisions/2026-12-01-claims-on-the-host.md.
 */
export const lockClasses = {
  /** Trimming of one Project's receipts. */
  receipts: 1,
  /** The log ring of one Project. */
  "runtime-log": 2,
  /** The migration runner of one schema. */
  migration: 3,
  /** Claim of one repository: taken by a try, so that a loser never waits for the winner's commit. */
  repository: 6
} as const

export type LockClass = keyof typeof lockClasses

const bitsBelow = 56n

/** Key of a lock on one numbered thing: a Project's id stays below 2^53, so it fits. */
export const lockKey = (kind: LockClass, id: number): bigint =>
  (BigInt(lockClasses[kind]) << bitsBelow) + BigInt(id)

/** Key of a lock on one named thing: seven bytes of the name's digest. Two names that met would only wait or try again. */
export const namedLockKey = (kind: LockClass, name: string): bigint =>
  (BigInt(lockClasses[kind]) << bitsBelow) +
  BigInt(`0x${createHash("sha256").update(name).digest("hex").slice(0, 14)}`)

/** Held by the migration runner of a schema until it commits. Source: SP-DB-04. */
export const migrationLock = (schema: string): bigint => namedLockKey("migration", schema)
