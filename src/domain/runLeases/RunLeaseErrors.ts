/** What acquisitions and teardowns refuse or fail with; the texts are those of the specification. Source: RL section 1.1. */
import * as Data from "effect/Data"
import type { EnvironmentLeaseId } from "../Identity.ts"

/** ERR-DRIVER. Source: RL-ACQ-02. */
export class EnvironmentDriverUnregistered extends Data.TaggedError("EnvironmentDriverUnregistered")<{
  readonly driver: string
}> {
  readonly code = "environment_driver_unregistered"
  override get message(): string {
    return `Environment driver "${this.driver}" is not registered in the environment runtime yet.`
  }
}

/** ERR-UNWIRED: this process has no provider workers at all. Source: RL-ACQ-07. */
export class ProviderWorkersUnwired extends Data.TaggedError("ProviderWorkersUnwired")<{
  readonly provider: string
}> {
  readonly code = "provider_workers_unwired"
  override get message(): string {
    return `Sandbox provider "${this.provider}" is installed, but sandbox provider workers are unavailable in this server process.`
  }
}

/** ERR-OFFLINE. Source: RL-ACQ-08. */
export class ProviderWorkerOffline extends Data.TaggedError("ProviderWorkerOffline")<{
  readonly provider: string
}> {
  readonly code = "provider_worker_offline"
  override get message(): string {
    return `Sandbox provider "${this.provider}" is installed, but its worker is not running.`
  }
}

/** No built-in provider and no plugin has the key, or the plugin is not ready. */
export class SandboxProviderUnknown extends Data.TaggedError("SandboxProviderUnknown")<{
  readonly provider: string
}> {
  readonly code = "sandbox_provider_unknown"
  override get message(): string {
    return `Sandbox provider "${this.provider}" is neither built in nor installed and ready: install its plugin, or name another one.`
  }
}

/** The same key came with another request while, or after, the first one was carried out. Source: FC-04. */
export class AcquisitionKeyConflict extends Data.TaggedError("AcquisitionKeyConflict")<{
  readonly requestKey: string
}> {
  readonly code = "request_key_conflict"
  readonly status = 409
  override get message(): string {
    return `request key ${this.requestKey} was used for another acquisition: repeat that one as it was, or use another key`
  }
}

/** Another daemon has carried the same request out for too long; what it makes is found under the key later. Source: FC-04. */
export class AcquisitionUnderWay extends Data.TaggedError("AcquisitionUnderWay")<{
  readonly requestKey: string
}> {
  readonly code = "request_key_under_way"
  readonly status = 409
  override get message(): string {
    return `another daemon still carries out the acquisition of request key ${this.requestKey}: ask again under the same key`
  }
}

/** The driver that carries the lease has no such operation. */
export class DriverOperationMissing extends Data.TaggedError("DriverOperationMissing")<{
  readonly driver: string
  readonly operation: "resume" | "destroy" | "realize" | "execute"
}> {
  readonly code = "driver_operation_missing"
  override get message(): string {
    return `environment driver "${this.driver}" has no operation to ${this.operation}: use an environment of another driver`
  }
}

/** ERR-PRESERVED. `why` is a fixed word, never a provider's text. Source: RL-REUSE-12, -13. */
export class SandboxLeasePreserved extends Data.TaggedError("SandboxLeasePreserved")<{
  readonly lease: EnvironmentLeaseId
  readonly why:
    | "the provider failed"
    | "its worker cannot resume now"
    | "the provider answered for another lease"
    | "the provider has lost it"
}> {
  readonly code = "sandbox_lease_preserved"
  override get message(): string {
    return `Sandbox lease "${this.lease}" could not be resumed (${this.why}); the lease was preserved and no replacement was created.`
  }
}

/** ERR-CREATE-CONFIRMED: the creation failed and what it had allocated is proved gone. Source: RL-CREATE-09. */
export class SandboxCreationCleaned extends Data.TaggedError("SandboxCreationCleaned")<{
  readonly cause: unknown
}> {
  readonly code = "sandbox_creation_cleaned"
  override get message(): string {
    return "Sandbox creation failed; allocated sandbox cleanup was confirmed."
  }
}

/** ERR-BACKUP. Source: RL-BACKUP-01, -02. */
export class RunnerHarnessBackupUnavailable extends Data.TaggedError("RunnerHarnessBackupUnavailable")<{
  readonly lease: EnvironmentLeaseId
}> {
  readonly code = "runner_harness_backup_unavailable"
  override get message(): string {
    return `runner_harness_backup_unavailable: lease ${this.lease} has no verified backup of its runner, so its sandbox is neither destroyed nor replaced`
  }
}

/** ERR-ORPHAN-WRITE: neither the row nor the teardown worked; the resource is in the spool or the buffer. Source: RL-ORPHAN-06. */
export class SandboxOrphanCleanupWriteError extends Data.TaggedError("SandboxOrphanCleanupWriteError")<{
  readonly provider: string
  readonly providerLeaseId: string
  /** The original rejection. */
  readonly cause: unknown
}> {
  readonly code = "sandbox_orphan_cleanup_write_failed"
  override get message(): string {
    return `a sandbox of provider "${this.provider}" could be neither recorded nor torn down: it is kept in the orphan spool until the database answers`
  }
}

/** A teardown that was asked for directly did not come to a proof. `why` is a fixed word. Source: RL-ORPHAN-13. */
export class TeardownUnconfirmed extends Data.TaggedError("TeardownUnconfirmed")<{
  readonly lease: EnvironmentLeaseId
  readonly why:
    | "provider_failed"
    | "not_confirmed"
    | "method_missing"
    | "worker_offline"
    | "held"
    | "other_owner"
    | "secret_unavailable"
    | "interrupted"
}> {
  readonly code = "teardown_unconfirmed"
  override get message(): string {
    return `the teardown of lease ${this.lease} is not confirmed (${this.why}); it stays owed and is tried again`
  }
}

/** The one value of the log field `errorKind` of the orphan path. Source: RL-ORPHAN-07. */
export const orphanErrorKind = "sandbox_orphan_cleanup_write_failed"
