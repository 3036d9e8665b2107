/**
 * The driver `ssh`: a run works on another machine, as a user of it. Its lease names that place; what it owes are the
 * processes of its commands there, and it ends when none of them is left. Every disposition is a plain release. The lease
 * keeps the target that it was acquired with, so that it can be ended whatever has become of its environment.
 * Source: RL-SSH-01, RL-SSH-02, RL-SECRET-05, U13.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { executionTimeoutMillisMax, sshEndMillisMax, sshPortDefault } from "../Bounds.ts"
import type { EnvironmentLease } from "../environments/EnvironmentLease.ts"
import type { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { Identifiers } from "../Identifiers.ts"
import { EnvironmentLeaseId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import { WorkspaceArchives } from "../providers/WorkspaceArchives.ts"
import { resolveEnvironmentDriverConfigForRuntime, resolveRecordedConfig } from "../secrets/configSecrets.ts"
import type { SecretCipher } from "../secrets/Secret.ts"
import type { SecretStore } from "../secrets/SecretStore.ts"
import type { DriverMaker } from "./EnvironmentDrivers.ts"
import type {
  Acquisition,
  EnvironmentDriver,
  Execution,
  LeaseInPlace,
  Release,
  Workspace
} from "./EnvironmentDriver.ts"
import { acquireHostLease, releaseHostLease } from "./hostLeases.ts"
import { type RemoteCommand, type RemoteHost, RemoteHosts } from "./RemoteHosts.ts"

export type SshNeeds =
  | EnvironmentLeaseStore
  | Identifiers
  | RemoteHosts
  | SecretCipher
  | SecretStore
  | WorkspaceArchives

const SshConfig = Schema.Struct({
  host: Schema.NonEmptyString,
  port: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 65_535 }))),
  username: Schema.NonEmptyString,
  remoteWorkspacePath: Schema.String.check(Schema.isStartingWith("/")),
  privateKey: Schema.NonEmptyString,
  knownHosts: Schema.optionalKey(Schema.NullOr(Schema.String)),
  strictHostKeyChecking: Schema.optionalKey(Schema.Boolean)
})

/** The environment's config is none of an SSH host. No value of it is told. */
export class SshConfigRefused extends Data.TaggedError("SshConfigRefused")<{}> {
  readonly code = "ssh_config_refused"
  override get message(): string {
    return "the environment's config needs host, username, an absolute remoteWorkspacePath and privateKeySecretRef; port, knownHosts and strictHostKeyChecking may be given"
  }
}

/** The workspace did not arrive whole at the host. */
export class RemoteWorkspaceNotRealized extends Data.TaggedError("RemoteWorkspaceNotRealized")<{
  readonly exitCode: number | null
}> {
  readonly code = "remote_workspace_not_realized"
  override get message(): string {
    return `the workspace was not unpacked at the host (tar ended with ${this.exitCode ?? "no exit code"}): see whether it has room and has tar`
  }
}

interface Target {
  readonly host: RemoteHost
  readonly path: string
}

const decode = Schema.decodeUnknownOption(SshConfig)

/** Host and path of a config whose key is in the clear. A name that the client would take for an option is refused. */
const targetOf = (config: JsonObject): Effect.Effect<Target, SshConfigRefused> => {
  const read = Option.getOrUndefined(decode(config))
  const isName = (text: string) => !text.startsWith("-")
  if (read === undefined || !isName(read.host) || !isName(read.username))
    return Effect.fail(new SshConfigRefused())
  return Effect.succeed({
    path: read.remoteWorkspacePath,
    host: {
      host: read.host,
      port: read.port ?? sshPortDefault,
      username: read.username,
      privateKey: Redacted.make(read.privateKey),
      knownHosts: read.knownHosts ?? null,
      strictHostKeyChecking: read.strictHostKeyChecking ?? true
    }
  })
}

const presentTarget = ({ environment, tenant }: Pick<Acquisition, "environment" | "tenant">) =>
  Effect.flatMap(resolveEnvironmentDriverConfigForRuntime({ tenant, environment }), ({ config }) =>
    targetOf(Redacted.value(config))
  )

/** The place where the lease was acquired, by what its row recorded of it. Source: RL-REL-09, RL-SECRET-04. */
const recordedTarget = Effect.fnUntraced(function* ({ sentConfig, tenant }: EnvironmentLease) {
  const recorded = sentConfig ?? {}
  const { config } = yield* resolveRecordedConfig({ tenant, config: recorded, schema: undefined })
  const { privateKeySecretRef, ...rest } = Redacted.value(config)
  return yield* targetOf(
    typeof privateKeySecretRef === "string" ? { ...rest, privateKey: privateKeySecretRef } : rest
  )
})

/** A command that only proves that the place is there and may be worked in. */
const looking = (lease: EnvironmentLeaseId, path: string): RemoteCommand => ({
  lease,
  argv: ["true"],
  workingDirectory: path,
  environment: {},
  standardInput: null,
  timeoutMillis: sshEndMillisMax
})

const acquire = Effect.fnUntraced(function* (asked: Acquisition) {
  const id = EnvironmentLeaseId.make(yield* (yield* Identifiers).uuid)
  const { host, path } = yield* presentTarget(asked)
  yield* (yield* RemoteHosts).run(host, looking(id, path))
  return yield* acquireHostLease(asked, {
    id,
    driver: "ssh",
    providerLeaseId: `ssh://${host.username}@${host.host}:${host.port}`,
    metadata: {
      host: host.host,
      port: host.port,
      username: host.username,
      remoteWorkspacePath: path,
      remoteCwd: path
    },
    sentConfig: asked.environment.config
  })
})

const release = Effect.fnUntraced(function* (asked: Release) {
  const { host } = yield* recordedTarget(asked.lease)
  yield* (yield* RemoteHosts).endAll(host, asked.lease.id)
  return yield* releaseHostLease(asked)
})

const realize = Effect.fnUntraced(function* ({
  lease,
  workspace
}: LeaseInPlace & { readonly workspace: Workspace }) {
  const { host, path } = yield* recordedTarget(lease)
  const archive = yield* (yield* WorkspaceArchives).pack(workspace.localPath)
  const { exitCode } = yield* (yield* RemoteHosts).run(host, {
    ...looking(lease.id, path),
    argv: ["tar", "-x", "-f", "-"],
    standardInput: archive,
    timeoutMillis: executionTimeoutMillisMax
  })
  if (exitCode !== 0) return yield* new RemoteWorkspaceNotRealized({ exitCode })
  return { cwd: path, metadata: { remoteCwd: path } }
})

const execute = Effect.fnUntraced(function* (asked: Execution) {
  const { host } = yield* recordedTarget(asked.lease)
  return yield* (yield* RemoteHosts).run(host, {
    lease: asked.lease.id,
    argv: [asked.command, ...asked.args],
    workingDirectory: asked.cwd,
    environment: asked.env,
    standardInput: asked.stdin === undefined ? null : new TextEncoder().encode(asked.stdin),
    timeoutMillis: asked.commandTimeoutMillis ?? asked.timeoutMillis ?? executionTimeoutMillisMax,
    ...(asked.logSink === undefined ? {} : { logSink: asked.logSink })
  })
})

/** The driver over the lease table, the secrets and an SSH client. */
export const sshDriver: DriverMaker<SshNeeds> = Effect.map(
  Effect.context<SshNeeds>(),
  (context): EnvironmentDriver => ({
    driver: "ssh",
    acquireRunLease: (asked) => Effect.provideContext(acquire(asked), context),
    releaseRunLease: (asked) => Effect.provideContext(release(asked), context),
    realizeWorkspace: (asked) => Effect.provideContext(realize(asked), context),
    execute: (asked) => Effect.provideContext(execute(asked), context)
  })
)
