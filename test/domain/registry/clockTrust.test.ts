import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import {
  clockJumpMillisMax,
  clockPlausibleMillisMin,
  clockSettleMillis,
  sandboxLifeSecondsMax,
  sandboxLifeSecondsMin
} from "../../../src/domain/Bounds.ts"
import {
  type ClockReading,
  type ClockView,
  isLifeOver,
  observeClock
} from "../../../src/domain/registry/clockTrust.ts"
import { recordOf } from "./fixture.ts"

const nowMillis = clockPlausibleMillisMin + 1_000_000_000
const hourMillis = 3_600_000
const at = (wallMillis: number, monotonicMillis: number): ClockReading => ({ wallMillis, monotonicMillis })
const after = (...readings: ReadonlyArray<ClockReading>): ClockView =>
  readings.reduce<ClockView | null>((view, now) => observeClock(view, now), null)!
const isTrusted = (...readings: ReadonlyArray<ClockReading>): boolean => after(...readings).doubt === null

const living = (createdAtMillis: number, lifeMillis: number) =>
  recordOf(1, { createdAtMillis, expiresAtMillis: createdAtMillis + lifeMillis })

describe("registry/clockTrust", () => {
  it("FC-23 a clock that shows 1970 is not believed, and says why", () => {
    const view = after(at(1_000, 0), at(2_000, 1_000))
    assert.include(view.doubt, "before this release")
    assert.isFalse(isTrusted(at(clockPlausibleMillisMin - 1, 0)))
    assert.isTrue(isTrusted(at(clockPlausibleMillisMin, 0)))
  })

  it("FC-23 a clock that is set right after a start in 1970 is believed at once", () => {
    assert.isTrue(isTrusted(at(1_000, 0), at(nowMillis, 1_000)))
  })

  it.each([
    ["forward", hourMillis],
    ["by years", 80 * 365 * 24 * hourMillis],
    ["back", -hourMillis]
  ])("FC-23 a clock that jumps %s is believed only after it has stayed", (_, jump) => {
    const jumped = at(nowMillis + jump + 1_000, 1_000)
    const later = (millis: number) => at(jumped.wallMillis + millis, jumped.monotonicMillis + millis)
    assert.isTrue(isTrusted(at(nowMillis, 0), at(nowMillis + 1_000, 1_000)))
    assert.include(after(at(nowMillis, 0), jumped).doubt, "jumped")
    assert.isFalse(isTrusted(at(nowMillis, 0), jumped, later(clockSettleMillis - 1)))
    assert.isTrue(isTrusted(at(nowMillis, 0), jumped, later(clockSettleMillis)))
  })

  it("FC-23 a start by a clock that is years ahead of the newest sandbox waits until the clock has stayed", () => {
    const yearMillis = sandboxLifeSecondsMax * 1_000
    const first = at(nowMillis + yearMillis + 1, 0)
    const view = observeClock(null, first, nowMillis)
    assert.include(view.doubt, "ahead of the newest")
    const later = (millis: number) =>
      observeClock(view, at(first.wallMillis + millis, millis), first.wallMillis + millis)
    assert.include(later(clockSettleMillis - 1).doubt, "ahead of the newest")
    assert.isNull(later(clockSettleMillis).doubt)
    // A year of rest is no reason for doubt, nor is a node without sandboxes, or with one of 1970.
    assert.isNull(observeClock(null, at(nowMillis + yearMillis, 0), nowMillis).doubt)
    assert.isNull(observeClock(null, first, null).doubt)
    assert.isNull(observeClock(null, first, 5_000).doubt)
  })

  it("FC-23 one jump after another begins the wait again", () => {
    const back = at(nowMillis + clockSettleMillis, clockSettleMillis)
    const jumped = at(nowMillis + hourMillis, 0)
    assert.isFalse(isTrusted(at(nowMillis, 0), jumped, back))
  })

  it("a clock that is slewed, and a look that comes late, are no jump", () => {
    const day = 24 * hourMillis
    assert.isTrue(isTrusted(at(nowMillis, 0), at(nowMillis + day + clockJumpMillisMax, day)))
    assert.isFalse(isTrusted(at(nowMillis, 0), at(nowMillis + day + clockJumpMillisMax + 1, day)))
    const drifting = Array.from({ length: 1_000 }, (_, hour) =>
      at(nowMillis + hour * (hourMillis + 500), hour * hourMillis)
    )
    assert.isTrue(isTrusted(...drifting))
  })

  it("RG-DEL-09 a life is over at its end, and not a millisecond before", () => {
    const record = living(nowMillis - hourMillis, hourMillis)
    assert.isTrue(isLifeOver(record, nowMillis, 0))
    assert.isFalse(isLifeOver(record, nowMillis - 1, hourMillis))
  })

  it("FC-23 a life that began by a clock of 1970 lasts as long as it was asked for, by the time it was seen", () => {
    const record = living(5_000, hourMillis)
    assert.isFalse(isLifeOver(record, nowMillis, 0))
    assert.isFalse(isLifeOver(record, nowMillis, hourMillis - 1))
    assert.isTrue(isLifeOver(record, nowMillis, hourMillis))
  })

  it("FC-23 a life that began by a clock of another century does not last until then", () => {
    const record = living(nowMillis + 80 * 365 * 24 * hourMillis, hourMillis)
    assert.isFalse(isLifeOver(record, nowMillis, hourMillis - 1))
    assert.isTrue(isLifeOver(record, nowMillis, hourMillis))
  })

  it("a renewal by a right clock counts, whatever clock the sandbox was created by", () => {
    const renewed = recordOf(1, { createdAtMillis: 5_000, expiresAtMillis: nowMillis + hourMillis })
    assert.isFalse(isLifeOver(renewed, nowMillis, 100 * hourMillis))
    assert.isTrue(isLifeOver(renewed, nowMillis + hourMillis, 0))
  })

  const moment = Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 45 })))

  it.prop(
    "RG-DEL-09 every life ends: whatever clocks have set it, at the latest when it was seen for twice the longest",
    { createdAtMillis: moment, expiresAtMillis: moment, now: moment },
    ({ createdAtMillis, expiresAtMillis, now }) => {
      const record = recordOf(1, { createdAtMillis, expiresAtMillis })
      const wallMillis = Math.max(now, clockPlausibleMillisMin)
      const longestMillis = sandboxLifeSecondsMax * 1_000
      const isOverAfter = (millis: number) => isLifeOver(record, wallMillis + millis, millis)
      assert.isTrue(isOverAfter(longestMillis) || isOverAfter(2 * longestMillis))
      // And no life that a wrong clock has set is over at first sight.
      if (expiresAtMillis < clockPlausibleMillisMin) {
        assert.isFalse(isLifeOver(record, wallMillis, sandboxLifeSecondsMin * 1_000 - 1))
      }
    },
    { arbitrary: { runs: 2_000 } }
  )
})
