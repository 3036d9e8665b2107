/** The arithmetic of the benchmarks, and the command line that asks for them. */
import { assert, describe, it } from "@effect/vitest"
import { readArguments } from "../../../bench/lib/arguments.ts"
import { median, percentile, ratioOf, spreadOf } from "../../../bench/lib/statistics.ts"

describe("bench/lib/statistics", () => {
  it("a median lies between the two in the middle and leaves out what was not measured", () => {
    assert.strictEqual(median([4, Number.NaN, 1, 3, 2]), 2.5)
    assert.isNaN(median([]))
  })

  it("a percentile lies between its neighbours", () => {
    assert.strictEqual(percentile([0, 10], 0.99), 9.9)
  })

  it("a ratio above one is better, whichever way the figure counts", () => {
    assert.deepStrictEqual([ratioOf(10, 5, "higher"), ratioOf(5, 10, "lower")], [2, 2])
    assert.isNaN(ratioOf(1, 0, "higher"))
  })

  it("a spread holds the smallest and the largest", () => {
    assert.deepStrictEqual(spreadOf([3, 1, 2]), { median: 2, min: 1, max: 3 })
  })
})

describe("bench/lib/arguments", () => {
  it("names suites in any case, with rounds and seconds", () => {
    assert.deepStrictEqual(readArguments(["P1", "--rounds", "7", "--seconds", "0.5", "p12", "--strict"]), {
      suites: ["p1", "p12"],
      rounds: 7,
      seconds: 0.5,
      strict: true
    })
  })

  it("refuses fewer than five rounds, no number, and a flag that it does not know", () => {
    for (const words of [["--rounds", "4"], ["--seconds"], ["--seconds", "a"], ["--fast"]]) {
      assert.typeOf(readArguments(words), "string")
    }
  })
})
