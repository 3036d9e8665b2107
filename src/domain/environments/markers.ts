/**
 * The markers that say "only ever stop this resource": of an export that goes on, and of a run that asked for a stop. A
 * marker that cannot be read, or is another lease's, is a marker all the same: then nothing at all is sent.
 * Source: RL-EXPORT-01, RL-STOP-04 to -06, RL-STOP-10; RL 6.1 items 1 and 2.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { EnvironmentLeaseId, ProviderPluginId, RunId, TenantId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"
import { type EnvironmentLease, isPluginBacked, pinOf, stopOnlyMarkerKeys } from "./EnvironmentLease.ts"

const exportFields = {
  requestId: Schema.String,
  tenantId: TenantId,
  runId: RunId,
  leaseId: EnvironmentLeaseId,
  provider: Schema.String,
  providerLeaseId: Schema.String,
  resultId: Schema.String
}

const ExportMarker = Schema.Union([
  Schema.Struct({
    schema: Schema.Literal("holdfast.workspace-export-resume.v1"),
    pluginId: Schema.optionalKey(ProviderPluginId),
    purpose: Schema.optionalKey(Schema.Never),
    ...exportFields
  }),
  Schema.Struct({
    schema: Schema.Literal("holdfast.workspace-export-resume.v2"),
    pluginId: ProviderPluginId,
    purpose: Schema.optionalKey(Schema.Literal("terminal_export")),
    ...exportFields
  })
])

const StopAndRetain = Schema.Struct({
  pluginId: Schema.optionalKey(ProviderPluginId),
  builtinProvider: Schema.optionalKey(Schema.String),
  runId: RunId,
  providerLeaseId: Schema.String,
  cancelActiveWork: Schema.optionalKey(Schema.Boolean)
})

/** Who carries out a stop. Never guessed from a provider key. Source: RL-STOP-06. */
export type StopOwner =
  | { readonly _tag: "Plugin"; readonly plugin: ProviderPluginId }
  | { readonly _tag: "BuiltIn"; readonly provider: string }

/** A stop that is owed: by whom, of what, and whether what runs in it is cut off. Source: U20. */
export interface StopMarker {
  readonly owner: StopOwner
  readonly run: RunId
  readonly providerLeaseId: string
  readonly cancelActiveWork: boolean
}

export type MarkerReading =
  | { readonly _tag: "Absent" }
  | { readonly _tag: "Unusable"; readonly why: "unreadable" | "foreign" | "unpinned" }
  | { readonly _tag: "Usable"; readonly marker: StopMarker }

const absent: MarkerReading = { _tag: "Absent" }
const unusable = (why: "unreadable" | "foreign" | "unpinned"): MarkerReading => ({ _tag: "Unusable", why })

/** The lease's own owner, or undefined where it is a plugin's without a pin. */
export const stopOwnerOf = (lease: EnvironmentLease): StopOwner | undefined => {
  const pin = pinOf(lease)
  if (pin !== null) return { _tag: "Plugin", plugin: pin }
  return isPluginBacked(lease) || lease.provider === null
    ? undefined
    : { _tag: "BuiltIn", provider: lease.provider }
}

const decodeExport = Schema.decodeUnknownOption(ExportMarker)
const decodeStop = Schema.decodeUnknownOption(StopAndRetain)

const readExport = (lease: EnvironmentLease, stored: unknown): MarkerReading => {
  const marker = Option.getOrUndefined(decodeExport(stored))
  if (marker === undefined) return unusable("unreadable")
  const pin = pinOf(lease)
  if (pin === null) return unusable("unpinned")
  const isOurs =
    marker.tenantId === lease.tenant &&
    marker.runId === lease.run &&
    marker.leaseId === lease.id &&
    marker.provider === lease.provider &&
    marker.providerLeaseId === lease.providerLeaseId &&
    (marker.pluginId ?? pin) === pin
  if (!isOurs) return unusable("foreign")
  const { providerLeaseId, runId: run } = marker
  const owner: StopOwner = { _tag: "Plugin", plugin: pin }
  return { _tag: "Usable", marker: { owner, run, providerLeaseId, cancelActiveWork: true } }
}

const readStop = (lease: EnvironmentLease, stored: unknown): MarkerReading => {
  const marker = Option.getOrUndefined(decodeStop(stored))
  if (marker === undefined) return unusable("unreadable")
  const owner = stopOwnerOf(lease)
  if (owner === undefined) return unusable("unpinned")
  const named = owner._tag === "Plugin" ? marker.pluginId : marker.builtinProvider
  if (named === undefined) return unusable("unpinned")
  const isOurs =
    named === (owner._tag === "Plugin" ? owner.plugin : owner.provider) &&
    marker.runId === lease.run &&
    marker.providerLeaseId === lease.providerLeaseId
  if (!isOurs) return unusable("foreign")
  const { cancelActiveWork = false, providerLeaseId, runId: run } = marker
  return { _tag: "Usable", marker: { owner, run, providerLeaseId, cancelActiveWork } }
}

const readers = { nativeWorkspaceExportResume: readExport, sandboxStopAndRetain: readStop }

/** Reads both markers. One that is unusable decides; of two usable ones work is cut off if either says so. */
export const readStopMarker = (lease: EnvironmentLease): MarkerReading => {
  const readings = stopOnlyMarkerKeys
    .filter((key) => Object.hasOwn(lease.metadata, key))
    .map((key) => readers[key](lease, lease.metadata[key]))
  const unusableOne = readings.find(({ _tag }) => _tag === "Unusable")
  if (unusableOne !== undefined) return unusableOne
  const usable = readings.flatMap((reading) => (reading._tag === "Usable" ? [reading.marker] : []))
  const first = usable[0]
  return first === undefined
    ? absent
    : {
        _tag: "Usable",
        marker: { ...first, cancelActiveWork: usable.some(({ cancelActiveWork }) => cancelActiveWork) }
      }
}

/** Whether the lease may only ever be stopped, whatever can be read of the reason. */
export const isStopOnly = ({ metadata }: { readonly metadata: JsonObject }): boolean =>
  stopOnlyMarkerKeys.some((key) => Object.hasOwn(metadata, key))

/** Whether an export of its run still has to be ended by the run's release. Source: RL-EXPORT-05. */
export const hasTerminalExport = ({ metadata }: { readonly metadata: JsonObject }): boolean => {
  const marker = Option.getOrUndefined(decodeExport(metadata["nativeWorkspaceExportResume"]))
  return marker?.purpose === "terminal_export"
}

/**
 * The marker of a stop that a run asks for. Without an owner it names none, and stays a marker that nothing is sent for.
 * Source: RL-STOP-04 to -06.
 */
export const stopAndRetainMarker = (lease: EnvironmentLease, cancelActiveWork: boolean): JsonObject => {
  const owner = stopOwnerOf(lease)
  return {
    sandboxStopAndRetain: {
      ...(owner?._tag === "Plugin" ? { pluginId: owner.plugin } : {}),
      ...(owner?._tag === "BuiltIn" ? { builtinProvider: owner.provider } : {}),
      runId: lease.run,
      providerLeaseId: lease.providerLeaseId,
      cancelActiveWork
    }
  }
}
