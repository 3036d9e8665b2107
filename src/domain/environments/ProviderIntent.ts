/**
 * What is durable before a provider is asked to create, and the request whose key it holds meanwhile: of several daemons
 * that are asked under one key, one has the intent. Source: BX-01, FC-02, FC-04.
 */
import * as Schema from "effect/Schema"
import type {
  EnvironmentId,
  EnvironmentLeaseId,
  ProviderPluginId,
  RequestKey,
  RunId,
  TenantId
} from "../Identity.ts"

/**
 * Another acquisition of the tenant's has the request key: it is under way, or has its lease. Who asks looks again; it
 * reaches no caller of the runtime. Source: FC-04.
 */
export class AcquisitionRequestTaken extends Schema.TaggedError<AcquisitionRequestTaken>()(
  "AcquisitionRequestTaken",
  {}
) {
  override get message(): string {
    return "another acquisition has the request key"
  }
}

/** An acquisition that may be repeated, and the digest of what it asks for. Source: FC-04. */
export interface KeyedRequest {
  readonly key: RequestKey
  readonly fingerprint: string
}

/** Who carries a keyed request out now. */
export interface RequestHolder {
  readonly intent: EnvironmentLeaseId
  /** In its written form. */
  readonly process: string
  readonly fingerprint: string
}

/** What is durable before a provider is asked to create: by it a lost answer is found. Source: BX-01, FC-02. */
export interface ProviderIntent {
  /** Becomes the lease's id. */
  readonly id: EnvironmentLeaseId
  readonly tenant: TenantId
  readonly environment: EnvironmentId
  readonly run: RunId | null
  readonly provider: string
  readonly plugin: ProviderPluginId | null
  /** Deterministic: our installation label and the intent's id. */
  readonly name: string
  readonly installation: string
  readonly generation: number
  /** Process that means to create, in its written form. */
  readonly process: string
  readonly request?: KeyedRequest
}
