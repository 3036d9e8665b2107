/**
 * The intent to delete, put on the record before anything native is touched. It finds room in a full registry too:
 * there the record gives up what a sandbox that is to go needs no more. Otherwise a registry at its limit could never
 * become smaller. Source: RG-DEL-01, RG-DEL-09, RG-BUD-03.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { SandboxId } from "../Identity.ts"
import { type DeletionIntent, SandboxRecord } from "./Record.ts"
import { Registry } from "./Registry.ts"

/** The record with the intent; one that has an intent keeps it. Pure. */
export const withIntent = (record: SandboxRecord, deletion: DeletionIntent): SandboxRecord =>
  record.deletion === null ? new SandboxRecord({ ...record, deletion }) : record

/** The record without its words: native removal does not ask for what would be launched. Source: RG-DEL-03. Pure. */
const withoutWords = (record: SandboxRecord): SandboxRecord => {
  const { history: _, ...kept } = record
  return new SandboxRecord({ ...kept, argv: [], environment: {}, metadata: {}, statusReason: null })
}

/** Makes durable what `decide` makes of the record; `RegistryFull` only where a record without words has no room. */
export const putIntent = Effect.fnUntraced(function* <E>(
  sandbox: SandboxId,
  decide: (record: SandboxRecord) => Result.Result<SandboxRecord, E>
) {
  const registry = yield* Registry
  return yield* registry
    .update(sandbox, decide)
    .pipe(
      Effect.catchTag("RegistryFull", () =>
        registry.update(sandbox, (record) => Result.map(decide(record), withoutWords))
      )
    )
})
