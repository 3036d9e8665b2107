/**
 * The node's committed inventory. One commit lock serializes admission decisions and durable mutations; readers
 * never wait for it and see the last committed state. A failure at or after the rename or unlink of a record is
 * uncertain: the latch closes and every later access is refused until a restart. Source: RG-COM.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { AbsenceProof } from "../guests/AbsenceProof.ts"
import { type NodeId, SandboxId } from "../Identity.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"
import type { SandboxRecord } from "./Record.ts"

/** The registry cannot be opened. Nothing was changed; `path` is relative to the state directory. */
export class RegistryOpenRefused extends Schema.TaggedError<RegistryOpenRefused>()("RegistryOpenRefused", {
  path: Schema.String,
  why: Schema.String
}) {
  readonly code = "state_directory_refused"
  override get message(): string {
    return `the state directory is refused at ${this.path}: ${this.why}`
  }
}

/** Another daemon holds the state directory. */
export class StateDirectoryHeld extends Schema.TaggedError<StateDirectoryHeld>()("StateDirectoryHeld", {
  directory: Schema.String,
  holder: Schema.String
}) {
  readonly code = "state_directory_held"
  override get message(): string {
    return `${this.directory} is held by ${this.holder}: stop it, or choose another directory`
  }
}

/** The latch is closed: what is on disk is uncertain until the daemon is restarted. Source: RG-COM-05. */
export class StorageFailed extends Schema.TaggedError<StorageFailed>()("StorageFailed", {
  during: Schema.String
}) {
  readonly code = "storage_unavailable"
  override get message(): string {
    return `the registry failed during ${this.during} and refuses every access: keep the state directory, repair the storage, restart the daemon`
  }
}

/** The mutation failed before its commit; disk and memory are as they were. */
export class RegistryWriteFailed extends Schema.TaggedError<RegistryWriteFailed>()("RegistryWriteFailed", {
  sandbox: SandboxId,
  step: Schema.String,
  why: Schema.String
}) {
  readonly code = "registry_write_failed"
  override get message(): string {
    return `the record of ${this.sandbox} was not written: ${this.step} failed with ${this.why}`
  }
}

/** The logical budget of the registry would be passed. Source: RG-BUD-03. */
export class RegistryFull extends Schema.TaggedError<RegistryFull>()("RegistryFull", {
  usedBytes: Schema.Int,
  neededBytes: Schema.Int,
  limitBytes: Schema.Int
}) {
  readonly code = "registry_full"
  override get message(): string {
    return `the registry is full: ${this.usedBytes} of ${this.limitBytes} bytes are used and ${this.neededBytes} more are needed`
  }
}

/** The node's capacity would be passed. Source: RG-BUD-04. */
export class CapacityExceeded extends Schema.TaggedError<CapacityExceeded>()("CapacityExceeded", {
  resource: Schema.Literals(["sandboxes", "cpuMillis", "memoryBytes"]),
  used: Schema.Int,
  needed: Schema.Int,
  limit: Schema.Int
}) {
  readonly code = "capacity_exceeded"
  override get message(): string {
    return `the node has no room: ${this.used} of ${this.limit} ${this.resource} are reserved and ${this.needed} more are needed`
  }
}

export class SandboxNotFound extends Schema.TaggedError<SandboxNotFound>()("SandboxNotFound", {
  sandbox: SandboxId
}) {
  readonly code = "sandbox_not_found"
  override get message(): string {
    return `this node has no sandbox ${this.sandbox}`
  }
}

/** The id is in use, or was used once: a tombstone fences it forever. Source: RG-DEL-10. */
export class SandboxIdTaken extends Schema.TaggedError<SandboxIdTaken>()("SandboxIdTaken", {
  sandbox: SandboxId,
  by: Schema.Literals(["record", "tombstone"])
}) {
  readonly code = "sandbox_id_taken"
  override get message(): string {
    return `${this.sandbox} is taken by a ${this.by}: an id is used once`
  }
}

/** The state of the record does not allow the change. */
export class SandboxStateRefused extends Schema.TaggedError<SandboxStateRefused>()("SandboxStateRefused", {
  sandbox: SandboxId,
  status: Schema.String,
  wanted: Schema.String
}) {
  readonly code = "invalid_sandbox_state"
  override get message(): string {
    return `${this.sandbox} is ${this.status}: ${this.wanted} is refused`
  }
}

/** Limits of one node; all settable. */
export interface NodeCapacity {
  readonly sandboxes: number
  readonly cpuMillis: number
  readonly memoryBytes: number
}

/** What the retained records reserve, and the bytes of the logical version-1 snapshot that would hold them. */
export interface NodeCharges {
  readonly sandboxes: number
  readonly cpuMillis: number
  readonly memoryBytes: number
  readonly snapshotBytes: number
}

export type RegistryError = StorageFailed | RegistryWriteFailed

export class Registry extends Context.Service<
  Registry,
  {
    readonly node: NodeId
    readonly capacity: NodeCapacity
    readonly inventory: Effect.Effect<ReadonlyMap<SandboxId, SandboxRecord>, StorageFailed>
    readonly get: (sandbox: SandboxId) => Effect.Effect<SandboxRecord, SandboxNotFound | StorageFailed>
    /** Derived from the retained records, never a counter of its own. */
    readonly charges: Effect.Effect<NodeCharges, StorageFailed>
    /** Charges and records a new sandbox; durable when it returns. */
    readonly admit: (
      record: SandboxRecord
    ) => Effect.Effect<void, CapacityExceeded | RegistryFull | SandboxIdTaken | RegistryError>
    /**
     * Replaces the record by what the pure `change` makes of the last committed one; a refusal writes nothing, an
     * equal record writes nothing. A change of the id, the token or the reservation, a lower generation and a deletion
     * taken back are defects of the caller.
     */
    readonly update: <E>(
      sandbox: SandboxId,
      change: (record: SandboxRecord) => Result.Result<SandboxRecord, E>
    ) => Effect.Effect<SandboxRecord, E | SandboxNotFound | RegistryFull | RegistryError>
    /**
     * Removes the record and gives its reservation back: the only way out of the registry. Refused while no
     * deletion intent is durable, or when the proof is about another sandbox or an older generation.
     * Source: RG-DEL-01, BX-02.
     */
    readonly remove: (
      proof: AbsenceProof
    ) => Effect.Effect<void, SandboxNotFound | SandboxStateRefused | RegistryError>
    /** Does native work on a sandbox while nobody else does; other sandboxes are not held up. Source: RG-COM-04. */
    readonly exclusive: <A, E, R>(
      sandbox: SandboxId,
      effect: Effect.Effect<A, E, R>
    ) => Effect.Effect<A, E, R>
    /** The same, unless somebody is at work on the sandbox already: then nothing is done and none is answered. */
    readonly exclusiveIfFree: <A, E, R>(
      sandbox: SandboxId,
      effect: Effect.Effect<A, E, R>
    ) => Effect.Effect<Option.Option<A>, E, R>
  }
>()("holdfast/domain/registry/Registry") {
  declare readonly [OutsideTransaction]: true
}
