/**
 * The groups of the API about environments: the environments themselves, their leases, runs, secrets and providers. As in
 * Api.ts, these are definitions and perform nothing. A name that may hold anything is never part of a path.
 */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import {
  argvItemBytesMax,
  argvItemsMax,
  environmentConfigBytesMax,
  environmentDescriptionCharactersMax,
  environmentKeyBytesMax,
  environmentPairsMax,
  environmentValueBytesMax,
  executionTimeoutMillisMax,
  secretBytesMax,
  secretNameCharactersMax
} from "../../domain/Bounds.ts"
import { EnvironmentDriverName } from "../../domain/environments/Environment.ts"
import { EnvironmentLeaseId, ProviderPluginId, RunId } from "../../domain/Identity.ts"
import {
  CleanupSweepView,
  EnvironmentDeletionView,
  EnvironmentLeaseView,
  EnvironmentRowView,
  LeaseWhyView,
  ProviderView,
  RunLine,
  SecretView
} from "./environmentViews.ts"
import { boundedText, bytesOf } from "./requestTerms.ts"

const namePattern = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/** A new environment's name; an id has that form too, and is not refused, since ids are looked for first. */
const EnvironmentName = Schema.String.check(
  Schema.isPattern(namePattern, { expected: "1 to 63 lower-case letters, digits and inner hyphens" })
)
/** An environment in a path: its id, or else its name. */
const EnvironmentReference = Schema.String.check(Schema.isPattern(namePattern))

const Config = Schema.Record(Schema.String, Schema.Unknown).check(
  Schema.makeFilter(
    (config: { readonly [key: string]: unknown }) =>
      bytesOf(JSON.stringify(config)) <= environmentConfigBytesMax,
    { expected: `a config of at most ${environmentConfigBytesMax} bytes` }
  )
)

const AbsolutePath = boundedText(argvItemBytesMax, "an absolute path").check(Schema.isStartingWith("/"))

export const EnvironmentCreation = Schema.Struct({
  name: EnvironmentName,
  description: Schema.optionalKey(
    Schema.String.check(Schema.isMaxLength(environmentDescriptionCharactersMax))
  ),
  driver: EnvironmentDriverName,
  config: Config
})
export type EnvironmentCreation = typeof EnvironmentCreation.Type

/** What is not given stays. */
export const EnvironmentChange = Schema.Struct({
  name: Schema.optionalKey(EnvironmentName),
  driver: Schema.optionalKey(EnvironmentDriverName),
  config: Schema.optionalKey(Config),
  status: Schema.optionalKey(Schema.Literals(["active", "disabled"]))
})
export type EnvironmentChange = typeof EnvironmentChange.Type

const inEnvironment = { environment: EnvironmentReference }

export class EnvironmentsGroup extends HttpApiGroup.make("environments").add(
  HttpApiEndpoint.post("create", "/environments", {
    payload: EnvironmentCreation,
    success: EnvironmentRowView.pipe(HttpApiSchema.status(201))
  }),
  HttpApiEndpoint.get("list", "/environments", { success: Schema.Array(EnvironmentRowView) }),
  HttpApiEndpoint.get("get", "/environments/:environment", {
    params: inEnvironment,
    success: EnvironmentRowView
  }),
  HttpApiEndpoint.patch("update", "/environments/:environment", {
    params: inEnvironment,
    payload: EnvironmentChange,
    success: EnvironmentRowView
  }),
  /** Destroys what its leases keep alive, then removes it; refused while a lease of it is not over. */
  HttpApiEndpoint.delete("remove", "/environments/:environment", {
    params: inEnvironment,
    success: EnvironmentDeletionView
  })
) {}

const ofLease = { lease: EnvironmentLeaseId }

export class EnvironmentLeasesGroup extends HttpApiGroup.make("environmentLeases").add(
  /** The tenant's leases, newest first; of one environment or run where it is given. */
  HttpApiEndpoint.get("list", "/environment-leases", {
    query: { environment: Schema.optionalKey(Schema.String), run: Schema.optionalKey(RunId) },
    success: Schema.Array(EnvironmentLeaseView)
  }),
  HttpApiEndpoint.get("get", "/environment-leases/:lease", {
    params: ofLease,
    success: EnvironmentLeaseView
  }),
  HttpApiEndpoint.get("why", "/environment-leases/:lease/why", { params: ofLease, success: LeaseWhyView }),
  /** Hands back what the lease's run holds, and answers the lease as it is then. */
  HttpApiEndpoint.post("release", "/environment-leases/:lease/release", {
    params: ofLease,
    success: EnvironmentLeaseView
  }),
  /** Ends the lease's resource; where the provider cannot do it yet, the lease owes it. */
  HttpApiEndpoint.post("destroy", "/environment-leases/:lease/destruction", {
    params: ofLease,
    success: EnvironmentLeaseView
  }),
  /** Makes a cleanup that is owed due at once, whatever its back-off. */
  HttpApiEndpoint.post("retry", "/environment-leases/:lease/retry", {
    params: ofLease,
    success: EnvironmentLeaseView
  }),
  /** One pass of the cleanup sweep now, without a back-off. */
  HttpApiEndpoint.post("sweep", "/cleanup-sweeps", { success: CleanupSweepView })
) {}

export const EnvironmentRunRequest = Schema.Struct({
  environment: EnvironmentReference,
  argv: Schema.NonEmptyArray(boundedText(argvItemBytesMax, "an argument")).check(
    Schema.isMaxLength(argvItemsMax)
  ),
  variables: Schema.Record(
    boundedText(environmentKeyBytesMax, "a name"),
    boundedText(environmentValueBytesMax, "a value")
  ).check(Schema.isMaxProperties(environmentPairsMax)),
  workingDirectory: Schema.optionalKey(AbsolutePath),
  timeoutMillis: Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: executionTimeoutMillisMax }))
  ),
  standardInput: Schema.optionalKey(Schema.String),
  /** A directory of the daemon's machine, brought to where the command works. */
  workspacePath: Schema.optionalKey(AbsolutePath)
})
export type EnvironmentRunRequest = typeof EnvironmentRunRequest.Type

export class RunsGroup extends HttpApiGroup.make("runs").add(
  /** Leases, executes and releases, and streams it. Whoever hangs up ends the command and the lease. */
  HttpApiEndpoint.post("run", "/runs", {
    payload: EnvironmentRunRequest,
    success: HttpApiSchema.StreamNdjson({ schema: RunLine })
  })
) {}

const SecretName = Schema.NonEmptyString.check(Schema.isMaxLength(secretNameCharactersMax))
const SecretValue = boundedText(secretBytesMax, "a value")

export class SecretsGroup extends HttpApiGroup.make("secrets").add(
  HttpApiEndpoint.get("list", "/secrets", { success: Schema.Array(SecretView) }),
  /** Makes the secret, or gives it another value. */
  HttpApiEndpoint.post("set", "/secrets", {
    payload: Schema.Struct({ name: SecretName, value: SecretValue }),
    success: SecretView
  }),
  /** Another value for a secret that is there, by id or name. */
  HttpApiEndpoint.post("rotate", "/secrets/rotation", {
    payload: Schema.Struct({ secret: SecretName, value: SecretValue }),
    success: SecretView
  }),
  /** Allows an environment the use of it at one place of its config. */
  HttpApiEndpoint.post("bind", "/secrets/binding", {
    payload: Schema.Struct({
      secret: SecretName,
      environment: EnvironmentReference,
      configPath: Schema.NonEmptyString.check(Schema.isMaxLength(secretNameCharactersMax))
    }),
    success: SecretView
  })
) {}

export class ProvidersGroup extends HttpApiGroup.make("providers").add(
  HttpApiEndpoint.get("list", "/providers", { success: Schema.Array(ProviderView) }),
  /** Installs the plugin of a folder of the daemon's machine, or its newer version, and starts its worker. */
  HttpApiEndpoint.post("add", "/providers", {
    payload: Schema.Struct({ folder: AbsolutePath }),
    success: ProviderView.pipe(HttpApiSchema.status(201))
  }),
  /** Refused while a lease or an intent of it is not over: nobody else could end it. */
  HttpApiEndpoint.delete("remove", "/providers/:provider", {
    params: { provider: ProviderPluginId },
    success: HttpApiSchema.NoContent
  })
) {}
