/** The arithmetic of buckets and rollups. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { historyPointsMax } from "../../../src/domain/Bounds.ts"
import { bucketOf, isReadable, meanOf, mergeRollups, rollupOf } from "../../../src/domain/history/History.ts"

const Value = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))

describe("History", () => {
  it.prop(
    "rollups merge to the same whatever the grouping",
    { one: Value, two: Value, three: Value },
    ({ one, three, two }) => {
      const left = mergeRollups(mergeRollups(rollupOf(one), rollupOf(two)), rollupOf(three))
      const right = mergeRollups(rollupOf(three), mergeRollups(rollupOf(two), rollupOf(one)))
      assert.deepStrictEqual(left, right)
      assert.deepStrictEqual(left, {
        minimum: Math.min(one, two, three),
        maximum: Math.max(one, two, three),
        total: BigInt(one) + BigInt(two) + BigInt(three),
        samples: 3
      })
    }
  )

  it("a bucket begins at the full minute or hour of universal time", () => {
    const at = Date.UTC(2026, 0, 15, 12, 34, 56, 789)
    assert.strictEqual(bucketOf("minute", at), Date.UTC(2026, 0, 15, 12, 34))
    assert.strictEqual(bucketOf("hour", at), Date.UTC(2026, 0, 15, 12))
    assert.strictEqual(bucketOf("minute", Date.UTC(2026, 0, 15, 12, 34)), Date.UTC(2026, 0, 15, 12, 34))
  })

  it("the mean is the total over the count", () => {
    assert.strictEqual(meanOf(mergeRollups(rollupOf(1), rollupOf(2))), 1.5)
  })

  it("a range is readable while it is not empty and one read can answer it", () => {
    const range = { metrics: [], resolution: "minute", fromMillis: 0 } as const
    assert.isTrue(isReadable({ ...range, toMillis: historyPointsMax * 60_000 }))
    assert.isFalse(isReadable({ ...range, toMillis: historyPointsMax * 60_000 + 1 }))
    assert.isFalse(isReadable({ ...range, toMillis: 0 }))
    assert.isFalse(isReadable({ ...range, toMillis: Number.NaN }))
  })
})
