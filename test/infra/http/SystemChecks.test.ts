import { assert, describe, it } from "@effect/vitest"
import { sweepSilentMillisMax } from "../../../src/domain/Bounds.ts"
import { sweepCheck } from "../../../src/infra/http/SystemChecks.ts"

const report = { sweep: "leases", attempted: 3, done: 3, failed: 0, why: null, atMillis: 0 }

describe("sweepCheck", () => {
  it("FC-05 a sweep that failed wholly is a failed check with its figures", () => {
    const check = sweepCheck({ ...report, done: 0, failed: 3 }, 0)
    assert.deepInclude(check, {
      name: "sweep of leases",
      state: "failed",
      detail: "attempted 3, done 0, failed 3"
    })
    assert.isNotNull(check.advice)
    const away = sweepCheck({ ...report, attempted: 1, done: 0, failed: 1, why: "no database" }, 0)
    assert.deepInclude(away, { state: "failed", detail: "the pass failed: no database" })
  })

  it("FC-05 one that failed in part, or is silent for long, is a warning; nothing to do is none", () => {
    assert.strictEqual(sweepCheck({ ...report, done: 2, failed: 1 }, 0).state, "warning")
    assert.strictEqual(sweepCheck({ ...report, attempted: 0, done: 0 }, 0).state, "ok")
    assert.strictEqual(sweepCheck(report, sweepSilentMillisMax).state, "ok")
    assert.strictEqual(sweepCheck(report, sweepSilentMillisMax + 1).state, "warning")
  })
})
