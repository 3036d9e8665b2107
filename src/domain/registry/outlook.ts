/**
 * What an open of a surveyed registry would do, told for people and scripts: whether it succeeds, what becomes of every
 * record and of every remnant, and what the budget would hold. No environment, token or argument of a record is in it.
 * Pure.
 */
import { registrySnapshotBytesMax } from "../Bounds.ts"
import type { NodeId, SandboxId } from "../Identity.ts"
import type { Artifact } from "./artifacts.ts"
import { isLifeOver } from "./clockTrust.ts"
import type { SandboxRecord } from "./Record.ts"
import type { RegistryOpenRefused } from "./Registry.ts"
import { snapshotBytesOf, type Survey } from "./survey.ts"

export interface RecordOutlook {
  readonly sandbox: SandboxId
  readonly status: SandboxRecord["status"]
  /** What an open, and the node behind it, would do with it. */
  readonly outlook: string
}

export interface Outlook {
  /** Whether an open would succeed. */
  readonly opens: boolean
  /** Null: what is wrong hides it. */
  readonly layout: Survey["layout"] | null
  readonly owner: NodeId | null
  readonly records: ReadonlyArray<RecordOutlook>
  /** Of the logical version-1 snapshot; of its limit in `limitBytes`. */
  readonly snapshotBytes: number
  readonly limitBytes: number
  readonly artifacts: ReadonlyArray<Artifact & { readonly fate: string }>
  readonly refusals: ReadonlyArray<{ readonly path: string; readonly why: string }>
}

const fates: Readonly<Record<Artifact["kind"], string>> = {
  staging: "removed: a migration that was interrupted",
  retired: "removed: a records directory that never was in force",
  unactivated: "set aside and removed: never in force, the version-1 registry is",
  header: "removed: a header that was not put in place",
  record: "removed: a change of a record that was not committed",
  marker: "removed: a marker that was not published"
}

const life = (record: SandboxRecord, nowMillis: number): string => {
  if (record.deletion !== null) {
    return `its deletion goes on (${record.deletion.reason}, asked by ${record.deletion.actor})`
  }
  if (isLifeOver(record, nowMillis, 0)) return "kept, then deleted by the node: it has expired"
  switch (record.status) {
    case "Failed":
    case "Terminated":
      return "kept and charged until it is deleted"
    case "Stopping":
      return "kept; what is left of its guest is ended"
    case "Pending":
      return "kept; it may be started, or what is left of a start is ended"
    default:
      return "kept; its guest is adopted where it lives, else the record says Failed"
  }
}

const outlooks = (survey: Survey, nowMillis: number): ReadonlyArray<RecordOutlook> => {
  if (survey.layout === "fresh") return []
  const prefix = survey.layout === "version 1" ? "migrated; " : ""
  return survey.records
    .map((record) => ({
      sandbox: record.id,
      status: record.status,
      outlook: `${prefix}${life(record, nowMillis)}`
    }))
    .toSorted((one, other) => (one.sandbox < other.sandbox ? -1 : 1))
}

const bytesOfSurvey = (survey: Survey): number => {
  if (survey.layout === "fresh") return 0
  return survey.layout === "version 1" ? survey.snapshotBytes : snapshotBytesOf(survey)
}

/** The outlook of what a survey has found, by the host's clock. */
export const outlookOf = (survey: Survey, nowMillis: number): Outlook => ({
  opens: survey.faults.length === 0,
  layout: survey.layout,
  owner: survey.layout === "fresh" ? null : survey.owner,
  records: outlooks(survey, nowMillis),
  snapshotBytes: bytesOfSurvey(survey),
  limitBytes: registrySnapshotBytesMax,
  artifacts: survey.artifacts.map((artifact) => ({ ...artifact, fate: fates[artifact.kind] })),
  refusals: survey.faults.map(({ path, why }) => ({ path, why }))
})

/** The outlook where a survey could not go on. */
export const outlookOfRefusal = ({ path, why }: RegistryOpenRefused): Outlook => ({
  opens: false,
  layout: null,
  owner: null,
  records: [],
  snapshotBytes: 0,
  limitBytes: registrySnapshotBytesMax,
  artifacts: [],
  refusals: [{ path, why }]
})
