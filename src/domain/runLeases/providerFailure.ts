/**
 * What is told of an error that is a provider's own: that there was one, and nothing of its text, which may be anybody's.
 * Source: RL-CREATE-07, FC-21.
 */
import * as Data from "effect/Data"
import { ProviderCallFailed, ProviderRpcError } from "../providers/ProviderWorkers.ts"

/** The provider, or a driver of a consumer's, did not do what it was asked. */
export class ProviderFailed extends Data.TaggedError("ProviderFailed")<{
  /** A word of ours, or the code of the error of JSON-RPC. */
  readonly why: string
}> {
  readonly code = "provider_failed"
  override get message(): string {
    return `the environment's provider failed (${this.why}): its log tells what it met; see provider list for its worker`
  }
}

export const providerFailure = (error: unknown): ProviderFailed => {
  if (error instanceof ProviderRpcError) return new ProviderFailed({ why: `error ${error.code}` })
  if (error instanceof ProviderCallFailed) return new ProviderFailed({ why: error.why })
  return new ProviderFailed({ why: "its own error" })
}
