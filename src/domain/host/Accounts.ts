/**
 * Port of the host's accounts: who asks, and whether they still may. A caller is resolved at the boundary, before
 * any transaction opens, and re-checked inside it, since access may be revoked in between. Source: SP-ADM-04, SP-TX-10.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { AccountId, ProjectId, TenantId } from "../Identity.ts"
import type { PluginTx, StorageFailure, TransactionEnded } from "../persistence/PluginDb.ts"

/** Who asked for an operation. `system` has no account. */
export const Initiator = Schema.Literals(["user", "agent", "system"])
export type Initiator = typeof Initiator.Type

/** A verified caller. The initiator comes from the credentials, never from a request's body. Source: SP-HTTP-03. */
export class Caller extends Schema.Class<Caller>("holdfast/Caller")({
  account: AccountId,
  tenant: TenantId,
  name: Schema.String,
  administrator: Schema.Boolean,
  initiator: Schema.Literals(["user", "agent"])
}) {}

/** Who asks: a verified caller, or the product itself, which has no account. */
export type Asker = Caller | "system"

/**
 * The account is unknown, disabled, or has no such access to the Project. It does not tell which. Without a Project
 * it is about the tenant: the account may not act there at all.
 */
export class AccessRefused extends Schema.TaggedError<AccessRefused>()("AccessRefused", {
  account: AccountId,
  project: Schema.NullOr(ProjectId)
}) {
  readonly code = "access_refused"
  override get message(): string {
    if (this.project === null)
      return `account ${this.account} is disabled or unknown: ask an administrator of its tenant`
    return `account ${this.account} has no access to project ${this.project}: ask its owner for a membership`
  }
}

export class HostAccounts extends Context.Service<
  HostAccounts,
  {
    /**
     * Re-checks, in the caller's transaction, that the account lives and may write to (or read) the Project; to
     * administer it takes an administrator.
     */
    readonly requireAccess: (
      caller: Caller,
      project: ProjectId,
      access: "read" | "write" | "administer"
    ) => Effect.Effect<void, AccessRefused | StorageFailure | TransactionEnded, PluginTx>
  }
>()("holdfast/domain/host/Accounts/HostAccounts") {}
