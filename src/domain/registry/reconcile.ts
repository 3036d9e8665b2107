/**
 * What a record and an observation of its guest mean together. Pure; the program that acts on it is
 * reconciliation.ts. Nothing is given back here: only a deletion with its proof does that. By state of the record and
 * what was seen:
 *
 *     record      own guest runs   own guest paused  another guest  half there  gone               uncertain
 *     Pending     Running          Paused            end            end         Failed; kept when  kept, with
 *                                                                               never launched     the reason
 *     Running     kept             Paused            Failed         end         Failed             kept …
 *     Pausing     Running          Paused            Failed         end         Failed             kept …
 *     Paused      Running          kept              Failed         end         Failed             kept …
 *     Resuming    Running          Paused            Failed         end         Failed             kept …
 *     Stopping    end              end               end            end         Terminated         kept …
 *     Terminated  end              end               end            end         kept               kept …
 *     Failed      end              end               kept           end         kept               kept
 *     any, with a deletion intent: the deletion goes on
 *
 * Source: RG-RUN-02, RG-RUN-03, RG-RUN-04, RG-DEL-02, RG-DEL-06.
 */
import type { GuestObservation } from "../guests/GuestSupervisor.ts"
import type { SandboxRecord, SandboxStatus } from "./Record.ts"
import { endReason, isOwnGuest } from "./status.ts"

/**
 * - `keep`: nothing is to be done.
 * - `status`: the record is corrected, and stays charged.
 * - `end`: what is left of a launch or of a stop is ended first; then it is looked at again.
 * - `delete`: the deletion intent is carried on.
 */
export type Verdict =
  | { readonly act: "keep" }
  | { readonly act: "status"; readonly status: SandboxStatus; readonly reason: string | null }
  | { readonly act: "end" }
  | { readonly act: "delete" }

const keep: Verdict = { act: "keep" }
const end: Verdict = { act: "end" }

/** The record is to say this; nothing is to be done where it does. */
const become = (record: SandboxRecord, status: SandboxStatus, reason: string | null): Verdict =>
  record.status === status && record.statusReason === reason ? keep : { act: "status", status, reason }

const failed = (record: SandboxRecord, reason: string): Verdict => become(record, "Failed", reason)

/** States whose guest should not be there. */
const isEnded = (status: SandboxStatus): boolean =>
  status === "Stopping" || status === "Terminated" || status === "Failed"

type Alive = Extract<GuestObservation, { readonly _tag: "Running" | "Paused" }>

const whileAlive = (record: SandboxRecord, observation: Alive): Verdict => {
  if (isOwnGuest(record, observation)) {
    return isEnded(record.status) ? end : become(record, observation._tag, null)
  }
  if (record.status === "Failed") return keep
  // A launch that died between the record of its attempt and the end of an older guest.
  if (record.status === "Pending" || isEnded(record.status)) return end
  return failed(record, "a guest of another attempt holds its place")
}

const whileGone = (
  record: SandboxRecord,
  observation: Extract<GuestObservation, { readonly _tag: "Gone" }>
): Verdict => {
  if (record.status === "Stopping") return become(record, "Terminated", endReason(observation))
  if (isEnded(record.status)) return keep
  if (record.status !== "Pending") return failed(record, endReason(observation))
  // Created and never launched: it may still be started.
  return observation.evidence._tag === "NeverStarted" ? keep : failed(record, "its start was interrupted")
}

/** The verdict for one record. `Uncertain` changes nothing but the record's word about it, and frees nothing. */
export const reconcile = (record: SandboxRecord, observation: GuestObservation): Verdict => {
  if (record.deletion !== null) return { act: "delete" }
  switch (observation._tag) {
    case "Running":
    case "Paused":
      return whileAlive(record, observation)
    case "Unsettled":
      return end
    case "Uncertain":
      return record.status === "Failed" ? keep : become(record, record.status, observation.why)
    case "Gone":
      return whileGone(record, observation)
  }
}
