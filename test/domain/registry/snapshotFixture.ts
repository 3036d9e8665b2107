/** Version-1 registries in directories of their own, as an earlier release left them. */
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import { NodeId } from "../../../src/domain/Identity.ts"
import { snapshotText } from "../../../src/domain/registry/charges.ts"
import type { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { recordOf, temporaryDirectory } from "./fixture.ts"

export const owner = NodeId.make("11111111-1111-4111-8111-111111111111")
export const markerText = JSON.stringify({ version: 1, owner })

export interface SnapshotPlace {
  readonly directory: string
  readonly write: (name: string, text: string, mode?: number) => void
  readonly makeDirectory: (name: string, mode?: number) => void
  readonly read: (name: string) => string
}

const placeAt = (directory: string): SnapshotPlace => ({
  directory,
  write: (name, text, mode = 0o600) => Files.writeFileSync(Path.join(directory, name), text, { mode }),
  makeDirectory: (name, mode = 0o700) => Files.mkdirSync(Path.join(directory, name), { mode }),
  read: (name) => Files.readFileSync(Path.join(directory, name), "utf8")
})

/** Puts a version-1 registry of these records there, with the marker of its runtime. */
export const writeSnapshot = (
  directory: string,
  records: ReadonlyArray<SandboxRecord> = [recordOf(1), recordOf(2), recordOf(3, { status: "Running" })]
): SnapshotPlace => {
  const place = placeAt(directory)
  place.write("sandboxes.json", snapshotText(owner, records))
  place.makeDirectory("runtime", 0o711)
  place.write("runtime/owner.json", markerText)
  return place
}

/** The same in a directory that goes with the scope. */
export const layOutSnapshot = (records?: ReadonlyArray<SandboxRecord>) =>
  Effect.map(temporaryDirectory, (directory) => writeSnapshot(directory, records))

/** A records directory that was never activated: its content is not the snapshot's, and half of it is torn. */
export const layOutUnactivated = ({ makeDirectory, write }: SnapshotPlace): void => {
  makeDirectory("records")
  write("records/meta.json", "{")
  write(`records/${recordOf(1).id}.json`, JSON.stringify(recordOf(1, { image: "/not/this" })))
  write(`records/${recordOf(9).id}.json`, JSON.stringify(recordOf(9)))
  write("records/.record-0", "")
  makeDirectory(".records-interrupted")
  write(`.records-interrupted/${recordOf(2).id}.json`, "\0\0\0")
  makeDirectory(".records-retired-before")
  write(".sandboxes.json-half", '{"version":2')
}
