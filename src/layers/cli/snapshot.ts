/**
 * The verbs `snapshot list` and `snapshot delete`. Making and restoring one are operations, and asked for as the others
 * are: lifecycle.ts.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SnapshotId } from "../../domain/Identity.ts"
import { table } from "../../infra/cli/text.ts"
import { connected, type Target } from "./connection.ts"
import { usage } from "./Failure.ts"
import { Output } from "./Output.ts"

/** The name of a snapshot as it was typed; one of a wrong form is refused before anybody is asked. */
export const snapshotIdOf = (typed: string) =>
  Schema.decodeUnknownEffect(SnapshotId)(typed).pipe(
    Effect.mapError(() =>
      usage("a snapshot's name is 1 to 160 letters, digits, points, hyphens, colons and underscores")
    )
  )

/** Lists the Project's snapshots, the oldest first. */
export const listSnapshots = Effect.fn("cli.listSnapshots")(function* (target: Target, project: string) {
  const output = yield* Output
  const snapshots = yield* connected(target, ({ call, client }) =>
    call(client.snapshots.list({ params: { project } }))
  )
  const rows = snapshots.map(({ bytes, createdAtMillis, generation, id, state }) => [
    id,
    state,
    bytes === null ? "-" : String(bytes),
    String(generation),
    new Date(createdAtMillis).toISOString()
  ])
  yield* output.result(snapshots, table([["SNAPSHOT", "STATE", "BYTES", "GENERATION", "CREATED"], ...rows]))
})

/** Removes one snapshot of the Project for good. */
export const deleteSnapshot = Effect.fn("cli.deleteSnapshot")(function* (
  target: Target,
  options: { readonly project: string; readonly snapshot: string }
) {
  const output = yield* Output
  const { project } = options
  const snapshot = yield* snapshotIdOf(options.snapshot)
  yield* connected(target, ({ call, client }) =>
    call(client.snapshots.remove({ params: { project }, query: { snapshot } }))
  )
  yield* output.result({ project, snapshot }, [`removed snapshot ${snapshot} of ${project}`])
})
