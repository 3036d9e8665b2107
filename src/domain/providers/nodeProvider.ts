/**
 * The built-in sandbox provider `node`: leases carry guests of this machine's registry. A lease's resource is one sandbox,
 * named after the intent, so the same intent is always the same sandbox, before and after a crash; it is destroyed behind a
 * proof of its absence, and nothing else is answered as destroyed. Source: RL 3.2, BX-01, BX-02.
 */
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import {
  executionTimeoutMillisMax,
  guestStopGraceMillis,
  runtimeCpuMillisDefault,
  runtimeMemoryMebibytesDefault,
  runtimeProcessesDefault,
  sandboxLifeSecondsDefault
} from "../Bounds.ts"
import { Digests } from "../Digests.ts"
import { type ExecutionEvent, GuestCommand } from "../guests/GuestSpec.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import { Generation, RequestKey, SandboxId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import { createRequested } from "../registry/requestedCreation.ts"
import { deleteSandbox } from "../registry/removal.ts"
import { stopSandbox } from "../registry/lifecycle.ts"
import { Registry } from "../registry/Registry.ts"
import { sandboxOfDigest } from "../registry/sandboxOfDigest.ts"
import { requestText, type SandboxRequest } from "../registry/sandboxRequest.ts"
import type {
  BuiltInAcquisition,
  BuiltInProvider,
  CommandResult,
  HeldResource,
  ProviderCommand
} from "./BuiltInProviders.ts"
import type { LogSink } from "./ProviderWorkers.ts"
import { WorkspaceArchives } from "./WorkspaceArchives.ts"

export const nodeProviderKey = "node"

/** Metadata of the sandbox by which it is told whose it is. */
const installationLabel = "holdfast.installation"
const intentLabel = "holdfast.intent"
const workspaceFolder = "/workspace"

/** What an environment of this provider may configure; everything has a default. */
const NodeConfig = Schema.Struct({
  image: Schema.optionalKey(Schema.String),
  cpuMillis: Schema.optionalKey(Schema.Int),
  memoryBytes: Schema.optionalKey(Schema.Int),
  processesMax: Schema.optionalKey(Schema.Int),
  lifeSeconds: Schema.optionalKey(Schema.Int)
})

/** The environment's config is none for guests of this node. It tells which field, never its value. */
export class NodeConfigRefused extends Data.TaggedError("NodeConfigRefused")<{ readonly field: string }> {
  readonly code = "node_config_refused"
  override get message(): string {
    return `the environment's config has no usable ${this.field}: image is a text, the others are whole numbers`
  }
}

/** The lease's resource is not this node's: only the daemon of its node can do anything about it. Source: FC-13. */
export class ResourceElsewhere extends Data.TaggedError("ResourceElsewhere")<{
  readonly providerLeaseId: string
}> {
  readonly code = "resource_elsewhere"
  override get message(): string {
    return `${this.providerLeaseId} is no sandbox of this node: its own node's daemon has to see to it`
  }
}

const configFields = ["image", "cpuMillis", "memoryBytes", "processesMax", "lifeSeconds"] as const

const readConfig = (config: JsonObject) => {
  const given = Object.fromEntries(
    configFields.flatMap((field) => (config[field] == null ? [] : [[field, config[field]]]))
  )
  return Schema.decodeUnknownEffect(NodeConfig)(given).pipe(
    Effect.mapError(() => {
      const wrong = configFields.find(
        (field) => field in given && typeof given[field] !== (field === "image" ? "string" : "number")
      )
      return new NodeConfigRefused({ field: wrong ?? "value" })
    })
  )
}

const requestOf = (
  asked: BuiltInAcquisition,
  config: typeof NodeConfig.Type,
  id: SandboxId
): Omit<SandboxRequest, "origin"> => ({
  id,
  generation: Generation.make(asked.intent.generation),
  image: config.image ?? "host",
  argv: [],
  environment: {},
  metadata: { [installationLabel]: asked.intent.installation, [intentLabel]: asked.intent.name },
  cpuMillis: config.cpuMillis ?? runtimeCpuMillisDefault,
  memoryBytes: config.memoryBytes ?? runtimeMemoryMebibytesDefault * 1024 ** 2,
  processesMax: config.processesMax ?? runtimeProcessesDefault,
  disk: null,
  lifeSeconds: config.lifeSeconds ?? sandboxLifeSecondsDefault
})

/** Lease ids name the node, so that another node's daemon can tell that it is not asked. */
const makeNames = (node: string) => {
  const prefix = `node://${node}/`
  return {
    leaseOf: (sandbox: SandboxId) => `${prefix}${sandbox}`,
    sandboxOf: (providerLeaseId: string): Effect.Effect<SandboxId, ResourceElsewhere> => {
      const sandbox = providerLeaseId.startsWith(prefix) ? providerLeaseId.slice(prefix.length) : ""
      return Schema.is(SandboxId)(sandbox)
        ? Effect.succeed(sandbox)
        : Effect.fail(new ResourceElsewhere({ providerLeaseId }))
    }
  }
}

const collect = (events: Stream.Stream<ExecutionEvent, Error>, logSink?: LogSink) =>
  Effect.gen(function* () {
    const text = { stdout: "", stderr: "" }
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }
    let result = { exitCode: null as number | null, timedOut: false }
    yield* Stream.runForEach(events, (event) =>
      Effect.sync(() => {
        if (event._tag === "Exited") {
          result = { exitCode: event.exitCode, timedOut: event.ended === "timeout" }
        } else if (event._tag === "Output") {
          const said = decoders[event.stream].decode(event.bytes, { stream: true })
          text[event.stream] += said
          logSink?.({ stream: event.stream, text: said })
        }
      })
    )
    return { ...result, signal: null, ...text } satisfies CommandResult
  })

const commandOf = ({ args, command, cwd, env, stdin, timeoutMillis }: ProviderCommand): GuestCommand =>
  new GuestCommand({
    argv: [command, ...args],
    environment: env,
    workingDirectory: cwd === null || cwd === "" ? workspaceFolder : cwd,
    standardInput: stdin === undefined ? null : new TextEncoder().encode(stdin),
    timeoutMillis: timeoutMillis ?? executionTimeoutMillisMax
  })

type Unpack = (sandbox: SandboxId, archive: Uint8Array) => Effect.Effect<CommandResult, Error>

const unpackCommand = (archive: Uint8Array): GuestCommand =>
  new GuestCommand({
    argv: ["tar", "--extract", "--directory", workspaceFolder, "--file", "-"],
    environment: { PATH: "/usr/bin:/bin" },
    workingDirectory: workspaceFolder,
    standardInput: archive,
    timeoutMillis: executionTimeoutMillisMax
  })

/** The workspace did not arrive whole in the guest. */
export class WorkspaceNotRealized extends Data.TaggedError("WorkspaceNotRealized")<{
  readonly exitCode: number | null
}> {
  readonly code = "workspace_not_realized"
  override get message(): string {
    return `the workspace was not unpacked in the guest (tar ended with ${this.exitCode ?? "no exit code"}): see whether it has room and has tar`
  }
}

const realize = (unpack: Unpack, archives: WorkspaceArchives["Service"]) =>
  Effect.fnUntraced(function* (sandbox: SandboxId, localPath: string) {
    const { exitCode } = yield* unpack(sandbox, yield* archives.pack(localPath))
    if (exitCode !== 0) return yield* new WorkspaceNotRealized({ exitCode })
    return { cwd: workspaceFolder, metadata: { provider: nodeProviderKey, remoteCwd: workspaceFolder } }
  })

const heldBy = (installation: string, leaseOf: (sandbox: SandboxId) => string) =>
  Effect.map(
    Effect.flatMap(Registry, ({ inventory }) => inventory),
    (inventory): ReadonlyArray<HeldResource> =>
      [...inventory.values()]
        .filter(({ metadata }) => metadata[installationLabel] === installation)
        .map(({ id, metadata }) => ({
          providerLeaseId: leaseOf(id),
          intentName: metadata[intentLabel] ?? ""
        }))
  )

/** The provider over the registry and the supervisor of this node. */
export const makeNodeProvider = Effect.gen(function* () {
  const { node } = yield* Registry
  const supervisor = yield* GuestSupervisor
  const archives = yield* WorkspaceArchives
  const { sha256 } = yield* Digests
  const context = yield* Effect.context<
    Effect.Services<ReturnType<typeof createRequested>> | Effect.Services<ReturnType<typeof deleteSandbox>>
  >()
  const { leaseOf, sandboxOf } = makeNames(node)
  const acquire = Effect.fnUntraced(function* (asked: BuiltInAcquisition) {
    const { name } = asked.intent
    const request = requestOf(
      asked,
      yield* readConfig(asked.config),
      sandboxOfDigest(sha256(`intent\n${node}\n${name}`))
    )
    const origin = {
      key: RequestKey.make(name),
      hash: sha256(requestText(request)),
      actor: `run:${asked.run}`,
      startedAtMillis: null
    }
    const record = yield* createRequested({ ...request, origin })
    return {
      providerLeaseId: leaseOf(record.id),
      expiresAt: DateTime.formatIso(DateTime.makeUnsafe(record.expiresAtMillis)),
      metadata: { sandboxId: record.id, remoteCwd: workspaceFolder }
    }
  })
  const destroy = Effect.fnUntraced(function* (providerLeaseId: string) {
    const sandbox = yield* sandboxOf(providerLeaseId)
    yield* deleteSandbox(sandbox, { reason: "user", actor: "run leases" }).pipe(
      // Neither record nor tombstone: this node never had it, or its admission came to nothing.
      Effect.catchTag("SandboxNotFound", () => Effect.void)
    )
    return { providerLeaseId, state: "destroyed" }
  })
  const execute = (asked: ProviderCommand) =>
    Effect.flatMap(sandboxOf(asked.providerLeaseId), (sandbox) =>
      collect(supervisor.execute(sandbox, commandOf(asked)), asked.logSink)
    )
  const unpack: Unpack = (sandbox, archive) => collect(supervisor.execute(sandbox, unpackCommand(archive)))
  const within = Effect.provideContext(context)
  return {
    key: nodeProviderKey,
    acquireLease: (asked) => within(acquire(asked)),
    releaseLease: ({ providerLeaseId }) => within(Effect.asVoid(destroy(providerLeaseId))),
    destroyLease: ({ providerLeaseId }) => within(destroy(providerLeaseId)),
    stopLease: ({ providerLeaseId }) =>
      Effect.flatMap(sandboxOf(providerLeaseId), (sandbox) =>
        stopSandbox(sandbox, { graceMillis: guestStopGraceMillis })
      ).pipe(Effect.as({ providerLeaseId, state: "stopped" }), within),
    realizeWorkspace: ({ localPath, providerLeaseId }) =>
      Effect.flatMap(sandboxOf(providerLeaseId), (sandbox) => realize(unpack, archives)(sandbox, localPath)),
    execute,
    listLeases: (installation) => within(heldBy(installation, leaseOf))
  } satisfies BuiltInProvider
})
