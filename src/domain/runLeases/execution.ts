/**
 * Running a command in a leased sandbox. The run's parent is remembered for what is done about the lease later, and
 * commands of a run go past the provider's session only when nobody traces them or somebody asks for it.
 * Source: RL-EXEC-01, RL-EXEC-02, RL-TRACE-01, RL-SECRET-01.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { executionBudgetMillis } from "../environments/budget.ts"
import { recordedConfigOf } from "../environments/recordedConfig.ts"
import type { JsonObject } from "../Json.ts"
import type { BuiltInProvider, CommandResult } from "../providers/BuiltInProviders.ts"
import { ProviderCallFailed } from "../providers/ProviderWorkers.ts"
import { resolveConfig } from "../secrets/configSecrets.ts"
import type { Execution, LeaseInPlace } from "./EnvironmentDriver.ts"
import { targetInUse } from "./leaseTarget.ts"
import type { ProviderTarget } from "./providerTargets.ts"
import { DriverOperationMissing } from "./RunLeaseErrors.ts"
import { ActiveStepContext } from "./RunParent.ts"
import { TraceParents } from "./TraceParents.ts"

const isCommandResult = Schema.is(
  Schema.Struct({
    exitCode: Schema.NullOr(Schema.Int),
    signal: Schema.NullOr(Schema.String),
    timedOut: Schema.Boolean,
    stdout: Schema.String,
    stderr: Schema.String,
    metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown))
  })
)

/** The provider's result as it is; anything that is no result of a command is no answer. */
export const commandResult = (reply: unknown): Effect.Effect<CommandResult, ProviderCallFailed> =>
  isCommandResult(reply)
    ? Effect.succeed(reply)
    : Effect.fail(new ProviderCallFailed({ method: "environmentExecute", why: "malformed" }))

/** An explicit wish wins, then a session that was asked for; inside a traced run the session is kept. Source: RL-EXEC-02, U11. */
export const isSessionBypassed = (
  { bypassSession, forceSession }: Pick<Execution, "bypassSession" | "forceSession">,
  hasRunParent: boolean
): boolean => bypassSession ?? (forceSession === true ? false : !hasRunParent)

/** What every call about a lease that exists begins with. Source: RL section 3.4. */
export const leaseParams = (
  { environment, lease }: LeaseInPlace,
  driverKey: string,
  config: JsonObject
): JsonObject => ({
  driverKey,
  tenantId: lease.tenant,
  environmentId: environment.id,
  taskId: lease.task,
  config,
  providerLeaseId: lease.providerLeaseId,
  leaseMetadata: lease.metadata
})

/** The command and how it is to be run; what was not asked for is absent. */
export const commandParams = (asked: Execution): JsonObject => {
  const { args, command, commandTimeoutMillis, cwd, env, stdin, timeoutMillis } = asked
  return {
    command,
    args,
    cwd,
    env,
    ...(stdin === undefined ? {} : { stdin }),
    ...(timeoutMillis === undefined ? {} : { timeoutMs: timeoutMillis }),
    ...(commandTimeoutMillis === undefined ? {} : { commandTimeoutMs: commandTimeoutMillis })
  }
}

/** The lease's recorded config for a call of its living environment, secrets opened through their bindings. */
export const leaseConfig = Effect.fnUntraced(function* (
  { environment, lease }: LeaseInPlace,
  schema: JsonObject | undefined
) {
  const recorded = recordedConfigOf(lease, schema)
  const asked = { tenant: lease.tenant, environment: environment.id, config: recorded, schema }
  return { recorded, resolved: yield* resolveConfig(asked) }
})

const executeBuiltIn = Effect.fnUntraced(function* (asked: Execution, { execute, key }: BuiltInProvider) {
  if (execute === undefined) return yield* new DriverOperationMissing({ driver: key, operation: "execute" })
  const { args, command, cwd, env, lease, logSink, stdin, timeoutMillis } = asked
  const { resolved } = yield* leaseConfig(asked, undefined)
  return yield* execute({
    providerLeaseId: lease.providerLeaseId ?? "",
    config: Redacted.value(resolved.config),
    command,
    args,
    cwd,
    env,
    ...(stdin === undefined ? {} : { stdin }),
    ...(timeoutMillis === undefined ? {} : { timeoutMillis }),
    ...(logSink === undefined ? {} : { logSink })
  })
})

const executeByPlugin = Effect.fnUntraced(function* (
  asked: Execution,
  { entry, plugin, workers }: Extract<ProviderTarget, { _tag: "Plugin" }>
) {
  const active = yield* ActiveStepContext
  const { recorded, resolved } = yield* leaseConfig(asked, entry.configSchema)
  const params = {
    ...leaseParams(asked, entry.driverKey, Redacted.value(resolved.config)),
    ...commandParams(asked),
    bypassSession: isSessionBypassed(asked, active !== null)
  }
  const budget = executionBudgetMillis(asked.timeoutMillis, recorded)
  const reply = yield* workers.call(plugin.id, "environmentExecute", params, budget, asked.logSink)
  return yield* commandResult(reply)
})

/** Runs the command where the lease is, and answers the provider's result, or fails with its very error. */
export const executeInSandbox = Effect.fnUntraced(function* (asked: Execution) {
  yield* TraceParents.use((parents) => parents.remember(asked.lease.id))
  const target = yield* targetInUse(asked.lease)
  return yield* target._tag === "BuiltIn"
    ? executeBuiltIn(asked, target.provider)
    : executeByPlugin(asked, target)
})
