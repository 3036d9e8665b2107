/** What the checks of a provider's conformance work with: calls with the parameters of the rules, and their answers read. */
import * as Effect from "effect/Effect"
import type { ProviderPluginId } from "../Identity.ts"
import { isJsonObject, type JsonObject } from "../Json.ts"
import type { EnvironmentDriverEntry } from "./ProviderPlugin.ts"
import { saysAbsent } from "./ProviderFault.ts"
import { ProviderRpcError, type ProviderWorkerManager } from "./ProviderWorkers.ts"

export interface CheckedProvider {
  readonly manager: ProviderWorkerManager
  readonly plugin: ProviderPluginId
  readonly entry: EnvironmentDriverEntry
  /** Sent as the config of every call, so secrets in it are in the clear. */
  readonly config: JsonObject
  /** Strings of the config that no answer may contain. */
  readonly secrets: ReadonlyArray<string>
  /** A label that no real installation has. */
  readonly installation: string
  readonly tenant: string
  readonly environment: string
  /** A fresh uuid for each call. */
  readonly uuid: Effect.Effect<string>
}

/** One call of a check, with its budget. */
export type Call = (method: string, params: JsonObject) => Effect.Effect<unknown, Error>

export interface Kit extends CheckedProvider {
  readonly call: Call
  readonly methods: ReadonlySet<string>
  /** Methods of which an answer, of this check or an earlier one, had a secret in it. */
  readonly leaks: ReadonlySet<string>
  /** Creates one; the answer is destroyed when the check ends, whatever its outcome. */
  readonly acquire: Effect.Effect<Made, string>
}

interface Made {
  readonly id: string
  readonly intent: string
}

export const told = (method: string) =>
  Effect.mapError((error: Error) =>
    error instanceof ProviderRpcError
      ? `${method} answered with error ${error.code}`
      : `${method} gave no answer: ${error.message}`
  )

export const expect = (holds: boolean, why: string): Effect.Effect<void, string> =>
  holds ? Effect.void : Effect.fail(why)

export const lacks =
  (method: string) =>
  ({ methods }: Kit): string | undefined =>
    methods.has(method) ? undefined : `the worker has no ${method}`

export const isReceipt = (value: unknown, id: string, state: string): boolean =>
  isJsonObject(value) && value["providerLeaseId"] === id && value["state"] === state

/** Nothing, an empty object, or a receipt that names exactly this resource. */
const isDestroyAnswer = (value: unknown, id: string): boolean =>
  value == null ||
  (isJsonObject(value) && Object.keys(value).length === 0) ||
  isReceipt(value, id, "destroyed")

const commonOf = ({ config, entry, environment, tenant }: CheckedProvider) => ({
  driverKey: entry.driverKey,
  tenantId: tenant,
  environmentId: environment,
  taskId: null,
  config
})

export const about = (kit: Kit, id: string): JsonObject => ({
  ...commonOf(kit),
  providerLeaseId: id,
  leaseMetadata: { driver: "sandbox", provider: kit.entry.driverKey }
})

export const create = (provider: CheckedProvider, call: Call, intent: string, run: string) =>
  call("environmentAcquireLease", {
    ...commonOf(provider),
    executionWorkspaceSettings: null,
    runId: run,
    ...(provider.entry.supportsIntents === true
      ? { intent: { name: intent, installation: provider.installation, generation: 1 } }
      : {})
  }).pipe(told("environmentAcquireLease"))

export const destroy = (kit: Kit, id: string) =>
  kit.call("environmentDestroyLease", about(kit, id)).pipe(
    // Where nothing is, nothing is to be destroyed: the provider may say so in words.
    Effect.catchIf(
      (error) => saysAbsent(error, id),
      () => Effect.succeed(undefined)
    ),
    told("environmentDestroyLease"),
    Effect.flatMap((answer) =>
      expect(
        isDestroyAnswer(answer, id),
        'environmentDestroyLease answers nothing, {} or { providerLeaseId, state: "destroyed" } of that very resource'
      )
    )
  )

export const madeOf = (answer: unknown, intent: string): Effect.Effect<Made, string> => {
  if (!isJsonObject(answer)) return Effect.fail("environmentAcquireLease answers an object")
  const id = answer["providerLeaseId"]
  return typeof id === "string" && id !== ""
    ? Effect.succeed({ id, intent })
    : Effect.fail("environmentAcquireLease answers a providerLeaseId that is a text and not empty")
}

export const listed = (kit: Kit, installation: string) =>
  kit.call("environmentListLeases", { ...commonOf(kit), installation }).pipe(
    told("environmentListLeases"),
    Effect.flatMap((answer) =>
      isJsonObject(answer) && Array.isArray(answer["leases"])
        ? Effect.succeed(
            answer["leases"].map((lease: unknown) =>
              isJsonObject(lease) ? lease["providerLeaseId"] : undefined
            )
          )
        : Effect.fail("environmentListLeases answers { leases: [{ providerLeaseId, intentName }] }")
    )
  )

export const withoutIntents = ({ entry, methods }: Kit): string | undefined =>
  entry.supportsIntents === true
    ? methods.has("environmentListLeases")
      ? undefined
      : "the manifest says supportsIntents, and the worker has no environmentListLeases"
    : "the manifest does not say supportsIntents: a create whose answer is lost cannot be found again"

export const execute = (
  kit: Kit,
  id: string,
  command: string,
  args: ReadonlyArray<string>,
  more: JsonObject = {}
) =>
  kit
    .call("environmentExecute", {
      ...about(kit, id),
      command,
      args,
      cwd: "",
      env: {},
      bypassSession: true,
      ...more
    })
    .pipe(
      told("environmentExecute"),
      Effect.flatMap((answer) =>
        isJsonObject(answer) ? Effect.succeed(answer) : Effect.fail("environmentExecute answers an object")
      )
    )
