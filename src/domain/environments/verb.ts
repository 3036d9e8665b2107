/**
 * What may be done to the resource of a lease that is to be torn down. A closed union without a default: only a row that
 * carries no marker and no evidence is destroyed, and whatever cannot be read is held. Source: RL-SWEEP-04; RL 6.1 items
 * 1 and 2; RL 6.2.
 */
import type { CreationEvidence } from "./creationEvidence.ts"
import { readCreationEvidence } from "./creationEvidence.ts"
import type { EnvironmentLease } from "./EnvironmentLease.ts"
import { readStopMarker, type StopMarker } from "./markers.ts"

export type HoldReason =
  | "marker_unreadable"
  | "marker_foreign"
  | "marker_unpinned"
  | "evidence_unusable"
  | "two_minds"
  | "no_resource"
  | "over"

export type TeardownVerb =
  | { readonly _tag: "Stop"; readonly marker: StopMarker }
  | { readonly _tag: "Destroy" }
  | { readonly _tag: "DestroyUncertain"; readonly evidence: CreationEvidence }
  | { readonly _tag: "Hold"; readonly reason: HoldReason }

const hold = (reason: HoldReason): TeardownVerb => ({ _tag: "Hold", reason })

const markerReasons = {
  unreadable: "marker_unreadable",
  foreign: "marker_foreign",
  unpinned: "marker_unpinned"
} as const

/** Decided on the row as it is now; whoever has claimed it decides on the claimed row. */
export const decideVerb = (lease: EnvironmentLease): TeardownVerb => {
  if (lease.status === "expired") return hold("over")
  const marker = readStopMarker(lease)
  const evidence = readCreationEvidence(lease)
  switch (marker._tag) {
    case "Unusable":
      return hold(markerReasons[marker.why])
    case "Usable":
      return evidence._tag === "Absent" ? { _tag: "Stop", marker: marker.marker } : hold("two_minds")
    case "Absent":
      break
  }
  switch (evidence._tag) {
    case "Unusable":
      return hold("evidence_unusable")
    case "Usable":
      return { _tag: "DestroyUncertain", evidence: evidence.evidence }
    case "Absent":
      return lease.providerLeaseId === null ? hold("no_resource") : { _tag: "Destroy" }
  }
}
