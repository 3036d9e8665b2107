import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { sweepSilentMillisMax } from "../../../src/domain/Bounds.ts"
import { OrphanSpool, OrphanSpoolUnreadable } from "../../../src/domain/runLeases/OrphanSpool.ts"
import { spoolCheck, sweepCheck } from "../../../src/infra/http/SystemChecks.ts"

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

const spool = (fields: Partial<OrphanSpool["Service"]>) =>
  Effect.runSync(
    spoolCheck.pipe(
      Effect.provideService(OrphanSpool, {
        append: () => Effect.succeed(true),
        load: Effect.succeed([]),
        remove: () => Effect.void,
        quarantined: Effect.succeed(0),
        ...fields
      })
    )
  )

describe("spoolCheck", () => {
  it("FC-05 a spool that cannot be read degrades health: it is never an empty one", () => {
    const unreadable = Effect.fail(new OrphanSpoolUnreadable({ why: "permissions" }))
    const check = spool({ load: unreadable })
    assert.deepInclude(check, { name: "orphan spool", state: "failed" })
    assert.include(check.detail, "permissions")
  })

  it("FC-05 FC-19 what was put aside degrades health until somebody has looked at it", () => {
    const check = spool({ quarantined: Effect.succeed(2) })
    assert.strictEqual(check.state, "failed")
    assert.include(check.detail, "2 files")
  })

  it("FC-19 resources that wait for the database are told, and are no fault", () => {
    assert.deepInclude(spool({}), { state: "ok", detail: "0 resources wait for the database" })
  })
})
