/**
 * Credentials that the host hands to a command in a Project's machine, as variables of its environment. They are
 * resolved before any transaction opens, live in the launch's environment and in the redaction of its output, and
 * nowhere else. Whoever provides them may fail in any way: what he says is never logged or answered.
 * Source: SP-TX-10, SP-TX-11.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { ProjectId } from "../Identity.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"
import type { Caller } from "./Accounts.ts"

export interface LaunchCredential {
  /** Name of the variable: letters, digits and underscores, no digit first. */
  readonly name: string
  /** At least `credentialBytesMin` bytes, so that taking it out of an output cannot take anything else. */
  readonly value: Redacted.Redacted
}

/** The owner of the credentials failed: nothing was started. */
export class CredentialsUnavailable extends Schema.TaggedError<CredentialsUnavailable>()(
  "CredentialsUnavailable",
  { project: ProjectId }
) {
  readonly code = "credentials_unavailable"
  override get message(): string {
    return `the credentials of project ${this.project} could not be had, and nothing was started: see to their owner, then ask again`
  }
}

/** Port of the owner of the credentials. */
export class LaunchCredentials extends Context.Service<
  LaunchCredentials,
  {
    /** What a command of this caller in the Project gets. Whatever it fails with is the owner's own affair. */
    readonly resolve: (
      caller: Caller,
      project: ProjectId
    ) => Effect.Effect<ReadonlyArray<LaunchCredential>, unknown>
  }
>()("holdfast/domain/host/LaunchCredentials") {
  declare readonly [OutsideTransaction]: true
}

/** The whole of what is ever said about a failure of the owner. Source: SP-TX-11. */
export const credentialsDiagnostic = "the owner of launch credentials failed"

/**
 * Resolves the credentials of one launch. A failure, and a defect too, becomes `CredentialsUnavailable`; one fixed
 * sentence is logged, with none of the owner's words.
 */
export const resolveCredentials = Effect.fnUntraced(function* (caller: Caller, project: ProjectId) {
  const owner = yield* LaunchCredentials
  return yield* Effect.suspend(() => owner.resolve(caller, project)).pipe(
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.andThen(
            Effect.logWarning(credentialsDiagnostic),
            Effect.fail(new CredentialsUnavailable({ project }))
          )
    )
  )
})
