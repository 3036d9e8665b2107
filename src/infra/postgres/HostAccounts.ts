/** Adapter of the host's accounts: the re-check of a caller on the caller's own transaction, in schema `core`. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { AccessRefused, type Caller, HostAccounts } from "../../domain/host/Accounts.ts"
import type { ProjectId } from "../../domain/Identity.ts"
import { PluginTx, type StorageFailure } from "../../domain/persistence/PluginDb.ts"

/** SQLSTATE that `core.require_access` and `core.require_owner` raise. */
export const accessRefusedState = "HF002"

/** What a failed check of access is: the refusal of the guard, or the failure that it was. */
export const accessRefusal =
  ({ account }: Pick<Caller, "account">, project: ProjectId) =>
  (failure: StorageFailure): AccessRefused | StorageFailure =>
    failure.state === accessRefusedState ? new AccessRefused({ account, project }) : failure

export const layer: Layer.Layer<HostAccounts> = Layer.succeed(
  HostAccounts,
  HostAccounts.of({
    requireAccess: (caller, project, access) =>
      Effect.flatMap(PluginTx, (tx) =>
        tx.query({
          operation: "HostAccounts.requireAccess",
          ...(access === "administer"
            ? {
                text: "select core.require_administrator($1::bigint, $2::uuid)",
                parameters: [project, caller.account]
              }
            : {
                text: "select core.require_access($1::bigint, $2::uuid, $3::boolean)",
                parameters: [project, caller.account, access === "write"]
              })
        })
      ).pipe(
        Effect.catchTag("StorageFailure", (failure) => Effect.fail(accessRefusal(caller, project)(failure))),
        Effect.asVoid
      )
  })
)

/** A binding for fixtures that have SQL and no host: it is there, and only an actual look-up dies. Source: SP-TEST-02. */
export const layerRefusing: Layer.Layer<HostAccounts> = Layer.succeed(
  HostAccounts,
  HostAccounts.of({
    requireAccess: () => Effect.die(new Error("this fixture has no host: no account may be looked up in it"))
  })
)
