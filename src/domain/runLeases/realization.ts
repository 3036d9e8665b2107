/**
 * Putting a workspace where a leased sandbox can work on it. The provider says where; what was asked for is recorded by the
 * host beside it. Source: RL-WORKSPACE-01 to -03.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { lifecycleBudgetMillis } from "../environments/budget.ts"
import { withWorkspaceRealization } from "../environments/workspaceRealization.ts"
import type { JsonObject } from "../Json.ts"
import type { BuiltInProvider } from "../providers/BuiltInProviders.ts"
import { ProviderCallFailed } from "../providers/ProviderWorkers.ts"
import type { LeaseInPlace, RealizedWorkspace, Workspace } from "./EnvironmentDriver.ts"
import { leaseConfig, leaseParams } from "./execution.ts"
import { targetInUse } from "./leaseTarget.ts"
import type { ProviderTarget } from "./providerTargets.ts"
import { DriverOperationMissing } from "./RunLeaseErrors.ts"

export type Realization = LeaseInPlace & { readonly workspace: Workspace }

const Realized = Schema.Struct({
  cwd: Schema.NonEmptyString,
  metadata: Schema.optional(Schema.NullOr(Schema.Record(Schema.String, Schema.Unknown)))
})
const decodeRealized = Schema.decodeUnknownOption(Realized)

/** A provider's answer with the host's record of the request in it. */
export const realizedWorkspace = (
  reply: unknown,
  workspace: Workspace
): Effect.Effect<RealizedWorkspace, ProviderCallFailed> =>
  Option.match(decodeRealized(reply), {
    onNone: () =>
      Effect.fail(new ProviderCallFailed({ method: "environmentRealizeWorkspace", why: "malformed" })),
    onSome: ({ cwd, metadata }) =>
      Effect.succeed(withWorkspaceRealization({ cwd, metadata: metadata ?? {} }, workspace.metadata))
  })

export const workspaceParam = ({ localPath, metadata, mode }: Workspace): JsonObject => ({
  localPath,
  mode,
  ...(metadata === undefined ? {} : { metadata })
})

const realizeBuiltIn = Effect.fnUntraced(function* (
  { lease, workspace }: Realization,
  { key, realizeWorkspace }: BuiltInProvider
) {
  if (realizeWorkspace === undefined)
    return yield* new DriverOperationMissing({ driver: key, operation: "realize" })
  const { localPath, mode } = workspace
  return yield* realizeWorkspace({ providerLeaseId: lease.providerLeaseId ?? "", localPath, mode })
})

const realizeByPlugin = Effect.fnUntraced(function* (
  asked: Realization,
  { entry, plugin, workers }: Extract<ProviderTarget, { _tag: "Plugin" }>
) {
  const { recorded, resolved } = yield* leaseConfig(asked, entry.configSchema)
  return yield* workers.call(
    plugin.id,
    "environmentRealizeWorkspace",
    {
      ...leaseParams(asked, entry.driverKey, Redacted.value(resolved.config)),
      workspace: workspaceParam(asked.workspace)
    },
    lifecycleBudgetMillis(recorded)
  )
})

/** Realizes the workspace, or fails with the provider's very error. */
export const realizeInSandbox = Effect.fnUntraced(function* (asked: Realization) {
  const target = yield* targetInUse(asked.lease)
  const reply = yield* target._tag === "BuiltIn"
    ? realizeBuiltIn(asked, target.provider)
    : realizeByPlugin(asked, target)
  return yield* realizedWorkspace(reply, asked.workspace)
})
