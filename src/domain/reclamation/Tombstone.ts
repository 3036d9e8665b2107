/**
 * The durable mark of a reclaimed sandbox: the proof of its absence, and the fence that keeps its id from ever
 * being used again. Source: RG-DEL-04, RG-DEL-10.
 */
import * as Schema from "effect/Schema"
import { AbsenceProof } from "../guests/AbsenceProof.ts"
import { SandboxId } from "../Identity.ts"
import { Provenance } from "./Provenance.ts"

export class Tombstone extends Schema.Class<Tombstone>("holdfast/Tombstone")({
  version: Schema.Literal(1),
  sandbox: SandboxId,
  proof: AbsenceProof,
  /** Left out where it was reclaimed without a record. */
  provenance: Schema.optionalKey(Provenance)
}) {}
