import { assert, describe, it } from "@effect/vitest"
import { SandboxStatus } from "../../../src/domain/registry/Record.ts"
import { outlookOf, outlookOfRefusal } from "../../../src/domain/registry/outlook.ts"
import { RegistryOpenRefused } from "../../../src/domain/registry/Registry.ts"
import type { CommittedRegistry } from "../../../src/domain/registry/survey.ts"
import { recordOf, sandboxOf } from "./fixture.ts"
import { owner } from "./snapshotFixture.ts"
import { startMillis } from "./steeredClocks.ts"

const living = { createdAtMillis: startMillis, expiresAtMillis: startMillis + 600_000 }
const committed = (records: CommittedRegistry["records"]): CommittedRegistry => ({
  layout: "version 2",
  owner,
  records,
  artifacts: [{ kind: "record", path: "records/.record-1" }],
  faults: []
})

describe("registry/outlook", () => {
  it("each state has its outlook; a deletion and an expiry come before it", () => {
    const words = (fields: Parameters<typeof recordOf>[1], nowMillis = startMillis) =>
      outlookOf(committed([recordOf(1, { ...living, ...fields })]), nowMillis).records[0]!.outlook
    for (const status of SandboxStatus.literals) assert.include(words({ status }), "kept")
    assert.include(words({ status: "Failed" }), "charged")
    assert.include(words({ status: "Running" }), "adopted")
    assert.include(words({ status: "Running" }, startMillis + 600_000), "expired")
    const deletion = { reason: "user", actor: "ann", requestedAtMillis: startMillis } as const
    assert.include(words({ deletion }, startMillis + 600_000), "deletion goes on (user, asked by ann)")
  })

  it("FC-23 by a clock of 1970, and for what was created by one, nothing has expired", () => {
    const words = (record: ReturnType<typeof recordOf>, nowMillis: number) =>
      outlookOf(committed([record]), nowMillis).records[0]!.outlook
    assert.notInclude(words(recordOf(1, living), 5_000), "expired")
    assert.notInclude(words(recordOf(1), startMillis), "expired")
  })

  it("no secret of a record is in it, and the records stand in the order of their ids", () => {
    const outlook = outlookOf(committed([recordOf(2, living), recordOf(1, living)]), startMillis)
    assert.deepStrictEqual(
      outlook.records.map(({ sandbox }) => sandbox),
      [sandboxOf(1), sandboxOf(2)]
    )
    const shown = JSON.stringify(outlook)
    for (const secret of ["s3cret", recordOf(1).endpointToken, "exit 0"]) assert.notInclude(shown, secret)
    assert.include(outlook.artifacts[0]!.fate, "removed")
    assert.isTrue(outlook.opens)
  })

  it("a fault, or a look that could not go on, is an open that is refused", () => {
    const refusal = new RegistryOpenRefused({ path: "records/x", why: "y" })
    const faulty = outlookOf({ ...committed([recordOf(1, living)]), faults: [refusal] }, startMillis)
    assert.deepInclude(faulty, { opens: false, refusals: [{ path: "records/x", why: "y" }] })
    assert.strictEqual(faulty.records.length, 1)
    assert.deepInclude(outlookOfRefusal(refusal), { opens: false, layout: null, owner: null })
  })
})
