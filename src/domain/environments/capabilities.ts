/**
 * What may be asked of a sandbox beyond its plain life. A capability is granted only where the lease's own plugin is
 * known, its declaration allows it, its living worker proves the verbs, and the recorded config does not take it back.
 * Everything that is unknown denies. Source: RL section 4.13, U2.
 */
import type { JsonObject } from "../Json.ts"
import { isJsonObject } from "../Json.ts"
import {
  driverEntryOf,
  type EnvironmentDriverEntry,
  type ProviderPlugin
} from "../providers/ProviderPlugin.ts"

/**
 * Verbs that the worker has to list, and whether the declaration has to allow the capability expressly; the others are
 * granted unless it forbids them. Source: RL-CAP-04, U2.
 */
const rules = {
  reusableLeases: { verbs: ["environmentResumeLease", "environmentReleaseLease"], isOptIn: true },
  nativeSyncIn: { verbs: ["environmentSyncIn"], isOptIn: false },
  nativeSyncOut: { verbs: ["environmentSyncOut"], isOptIn: false },
  persistentProcessSessions: { verbs: ["environmentExecute"], isOptIn: false },
  independentControlCommands: { verbs: ["environmentExecute"], isOptIn: false },
  incrementalSessionOutput: { verbs: ["environmentExecute"], isOptIn: true },
  concurrentSyncOperations: { verbs: ["environmentSyncIn", "environmentSyncOut"], isOptIn: true },
  duplexCommandStream: { verbs: ["environmentExecute"], isOptIn: true },
  runnerWebsocketIngress: { verbs: ["environmentExecute"], isOptIn: true }
} as const satisfies Readonly<Record<string, { verbs: ReadonlyArray<string>; isOptIn: boolean }>>

export type CapabilityKey = keyof typeof rules
export type Capabilities = Readonly<Record<CapabilityKey, boolean>>

const forEveryKey = (isGranted: (key: CapabilityKey) => boolean): Capabilities => ({
  reusableLeases: isGranted("reusableLeases"),
  nativeSyncIn: isGranted("nativeSyncIn"),
  nativeSyncOut: isGranted("nativeSyncOut"),
  persistentProcessSessions: isGranted("persistentProcessSessions"),
  independentControlCommands: isGranted("independentControlCommands"),
  incrementalSessionOutput: isGranted("incrementalSessionOutput"),
  concurrentSyncOperations: isGranted("concurrentSyncOperations"),
  duplexCommandStream: isGranted("duplexCommandStream"),
  runnerWebsocketIngress: isGranted("runnerWebsocketIngress")
})

/** What the drivers `local` and `ssh` have, and everything whose identity or worker is not known. */
export const noCapabilities: Capabilities = forEveryKey(() => false)

export interface CapabilityEvidence {
  /** The plugin that the lease is pinned to; null when it is gone, or when there is no pin. Never a sibling of its key. */
  readonly plugin: ProviderPlugin | null
  readonly driverKey: string
  /** What the living worker lists, or null where there is none or it cannot be asked. */
  readonly supportedMethods: ReadonlyArray<string> | null
  /** The recorded config, or null where it cannot be read. */
  readonly config: JsonObject | null
}

/** The entry that serves sandboxes under this key, or undefined: another kind serves none. Source: RL-CAP-03. */
export const sandboxEntryOf = (
  plugin: ProviderPlugin,
  driverKey: string
): EnvironmentDriverEntry | undefined => {
  const entry = driverEntryOf(plugin, driverKey)
  return entry?.kind === "sandbox_provider" ? entry : undefined
}

/** What the entry says of the key: the nested value beats the older flag. Source: RL-REUSE-18. */
const declarationOf = (entry: EnvironmentDriverEntry, key: CapabilityKey): boolean | undefined =>
  entry.sandboxCapabilities?.[key] ?? (key === "reusableLeases" ? entry.supportsReusableLeases : undefined)

/** Keys that the config takes back; null where what it says of them cannot be read. */
const narrowedBy = (config: JsonObject): ReadonlySet<string> | null => {
  const stated = config["sandboxCapabilities"] ?? {}
  if (!isJsonObject(stated)) return null
  const narrowed = new Set(Object.keys(stated).filter((key) => stated[key] !== true))
  return config["reuseLease"] === false ? narrowed.add("reusableLeases") : narrowed
}

/** The capabilities that hold for one lease now. Source: RL-CAP-01 to RL-CAP-06. */
export const effectiveCapabilities = ({
  config,
  driverKey,
  plugin,
  supportedMethods
}: CapabilityEvidence): Capabilities => {
  const entry = plugin === null ? undefined : sandboxEntryOf(plugin, driverKey)
  const narrowed = config === null ? null : narrowedBy(config)
  if (entry === undefined || supportedMethods === null || narrowed === null) return noCapabilities
  return forEveryKey((key) => {
    const { isOptIn, verbs } = rules[key]
    const declared = declarationOf(entry, key) ?? !isOptIn
    return declared && !narrowed.has(key) && verbs.every((verb) => supportedMethods.includes(verb))
  })
}
