/** A registry record of usual size, and the file that it is written into: what every contender of P12 writes. */
import * as Schema from "effect/Schema"
import { Generation, NodeId, SandboxId } from "../../src/domain/Identity.ts"
import { RecordFile, SandboxRecord } from "../../src/domain/registry/Record.ts"

export const sampleNode = NodeId.make("6f1c2a34-0000-4000-8000-000000000001")

/** Where a write puts its number: twelve characters, so that every record has the same length. */
export const numberMark = "############"

export const writtenNumber = (write: number): string => String(write).padStart(numberMark.length, "0")

const suffixOf = (index: number): string => String(index).padStart(12, "0")

/** The record of one sandbox; `write` is what changes from one version to the next. */
export const sampleRecord = (index: number, write: string): SandboxRecord =>
  new SandboxRecord({
    id: SandboxId.make(`sb-6f1c2a34-0000-4000-8000-${suffixOf(index)}`),
    generation: Generation.make(1),
    runId: `7a1c2a34-0000-4000-8000-${suffixOf(index)}`,
    attemptId: `8b1c2a34-0000-4000-8000-${suffixOf(index)}`,
    image: "host",
    argv: ["/bin/sh", "-c", "exec sleep 3600"],
    environment: { CI: "true", HOME: "/workspace", LANG: "C.UTF-8", REPOSITORY: "repository-of-the-project" },
    metadata: { project: "1", write },
    cpuMillis: 1,
    memoryBytes: 1024,
    processesMax: 64,
    disk: null,
    createdAtMillis: 1_700_000_000_000,
    expiresAtMillis: 1_700_086_400_000,
    status: "Running",
    statusReason: null,
    deletion: null,
    endpointToken: "0f".repeat(32)
  })

/** The text of the file, with the mark where the number goes. */
export const recordTemplate = (): string =>
  JSON.stringify(
    Schema.encodeSync(RecordFile)({ version: 2, owner: sampleNode, record: sampleRecord(0, numberMark) })
  )
