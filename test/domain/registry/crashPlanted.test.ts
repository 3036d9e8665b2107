import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import type { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { type RegistryFiles, sync } from "../../../src/domain/registry/RegistryFiles.ts"
import { unactivatedBeginning } from "./crashBeginnings.ts"
import { type Breakage, type HistoryOptions, runHistory } from "./crashHistory.ts"
import { makeEnumeration, type Violation } from "./crashOracle.ts"
import type { RegistryService } from "./fixture.ts"

type Files = RegistryFiles["Service"]

const historiesMax = 60

/** What the enumeration finds first in histories of a registry that is broken so. */
const firstViolation = async (
  breakage: Breakage,
  beginning?: HistoryOptions["beginning"]
): Promise<Violation | undefined> => {
  const enumeration = makeEnumeration()
  for (let seed = 1; seed <= historiesMax && enumeration.violations.length === 0; seed += 1) {
    await runHistory({ seed, enumeration, breakage, ...(beginning === undefined ? {} : { beginning }) })
  }
  return enumeration.violations[0]
}

const withoutSyncOf =
  (directory: RegExp) =>
  (files: Files): Files => ({
    ...files,
    carryOut: (name, steps) =>
      files.carryOut(name, directory.test(name) ? steps.filter(({ step }) => step !== "sync") : steps)
  })

/** From the staging directory on, every sync is put off until the header has been replaced. */
const activatesFirst = (files: Files): Files => {
  const putOff = new Set<string>()
  let staging: string | null = null
  return {
    ...files,
    makeDirectory: (name) =>
      Effect.tap(files.makeDirectory(name), () =>
        Effect.sync(() => {
          if (name.startsWith(".records-")) staging = name
        })
      ),
    carryOut: (directory, steps) =>
      Effect.forEach(
        steps,
        (step) =>
          Effect.gen(function* () {
            if (step.step === "sync" && staging !== null) {
              putOff.add(directory === staging ? "records" : directory)
              return
            }
            yield* files.carryOut(directory, [step])
            if (step.step !== "rename" || step.to !== "sandboxes.json") return
            staging = null
            for (const name of putOff) yield* files.carryOut(name, [sync])
            putOff.clear()
          }),
        { discard: true }
      )
  }
}

/** Nothing is synced before the process has written something itself. */
const believesWhatItFinds = (files: Files): Files => {
  let hasWritten = false
  return {
    ...files,
    carryOut: (directory, steps) =>
      Effect.suspend(() => {
        hasWritten ||= steps.some(({ step }) => step === "create")
        return files.carryOut(directory, hasWritten ? steps : steps.filter(({ step }) => step !== "sync"))
      })
  }
}

/** Readers see an admission at once. */
const remembersFirst = (registry: RegistryService): RegistryService => {
  const early = new Map<SandboxId, SandboxRecord>()
  return {
    ...registry,
    inventory: Effect.map(registry.inventory, (committed) => new Map([...committed, ...early])),
    admit: (record) =>
      Effect.suspend(() => {
        early.set(record.id, record)
        return Effect.ensuring(
          registry.admit(record),
          Effect.sync(() => early.delete(record.id))
        )
      })
  }
}

describe("registry/crash, with a fault planted", () => {
  it("RG-COM-01 the enumeration finds that records/ is not synced", async () => {
    const found = await firstViolation({ files: withoutSyncOf(/^records$/) })
    assert.match(found?.why ?? "", /is gone|as before/)
  })

  it("RG-COM-01 the enumeration finds that a record is renamed before its content is synced", async () => {
    const found = await firstViolation({
      calls: (calls) => ({
        ...calls,
        fsyncSync: (descriptor) => {
          if (!calls.fstatSync(descriptor).isFile()) calls.fsyncSync(descriptor)
        }
      })
    })
    assert.match(found?.why ?? "", /the open refuses: .*(corrupt|truncated)/)
  })

  it("RG-COM-02 the enumeration finds that memory changes before the disk", async () => {
    const found = await firstViolation({ registry: remembersFirst })
    assert.match(found?.why ?? "", /is gone/)
  })

  it("RG-MIG-02 the enumeration finds that version 2 is activated before its records are synced", async () => {
    const found = await firstViolation({ files: activatesFirst }, unactivatedBeginning)
    assert.match(found?.why ?? "", /the open refuses: .*missing beside an activated header|is gone/)
  })

  it("RG-MIG-02 the enumeration finds that the staging directory is not synced", async () => {
    const found = await firstViolation({ files: withoutSyncOf(/^\.records-/) }, unactivatedBeginning)
    assert.match(found?.why ?? "", /the open refuses: .*missing beside an activated header|is gone/)
  })

  it("RG-COM-05 the enumeration finds that an open believes what may be taken back", async () => {
    const found = await firstViolation({ files: believesWhatItFinds })
    assert.match(found?.why ?? "", /is gone|as before|owner/)
  })
})
