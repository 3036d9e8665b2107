/** The harness of the benchmarks: what is compared with what, what does not count, and what fails a run. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Contender, Suite, Target } from "../../../bench/lib/definition.ts"
import { linesOf } from "../../../bench/lib/report.ts"
import { rotated, runSuite } from "../../../bench/lib/runSuite.ts"

const options = { rounds: 5, seconds: 0.01 }

/** A contender whose rounds answer the given figures, the warm-up included; `wrong` is what its check says. */
const scripted = (
  name: string,
  perSecond: ReadonlyArray<number>,
  wrong: ReadonlyArray<string> = []
): Contender => ({
  name,
  run: (_, round) => Effect.succeed({ perSecond: perSecond[round + 1] ?? Number.NaN }),
  check: Effect.succeed(wrong)
})

const suiteOf = (contenders: ReadonlyArray<Contender>, targets: ReadonlyArray<Target> = []): Suite => ({
  id: "P0",
  title: "a scripted suite",
  what: "nothing is measured",
  figure: { name: "perSecond", better: "higher" },
  beside: [],
  baseline: "base",
  workers: [1],
  targets,
  open: () => Effect.succeed({ contenders, leftOut: [], setting: {} })
})

const run = (suite: Suite) => runSuite(suite, options, () => undefined)

describe("bench/lib/runSuite", () => {
  it.effect("a ratio is the median of the ratios of each round, not the ratio of two medians", () =>
    Effect.gen(function* () {
      const base = scripted("base", [1, 100, 200, 300, 400, 500])
      const own = scripted("own", [1000, 200, 200, 330, 800, 500])
      const { rows } = yield* run(suiteOf([base, own]))
      const ratio = rows.find((row) => row.contender === "own")!.ratio
      assert.deepStrictEqual(
        [ratio.median, ratio.min, ratio.max].map((value) => value.toFixed(2)),
        ["1.10", "1.00", "2.00"]
      )
    })
  )

  it.effect("the warm-up is run and not counted", () =>
    Effect.gen(function* () {
      const { rows, runs } = yield* run(suiteOf([scripted("base", [9, 1, 1, 1, 1, 1])]))
      assert.deepStrictEqual(
        runs.map(({ round }) => round),
        [0, 1, 2, 3, 4]
      )
      assert.strictEqual(rows[0]!.figures["perSecond"], 1)
    })
  )

  it.effect("a failed check voids every figure of the contender and the targets that rest on it", () =>
    Effect.gen(function* () {
      const base = scripted("base", [1, 1, 1, 1, 1, 1])
      const own = scripted("own", [5, 5, 5, 5, 5, 5], ["a row is missing"])
      const suite = suiteOf([base, own], [{ contender: "own", ratioAtLeast: 1 }])
      const result = yield* run(suite)
      const row = result.rows.find(({ contender }) => contender === "own")!
      assert.deepStrictEqual([row.rounds, row.void], [0, ["a row is missing"]])
      assert.isFalse(result.verdicts[0]!.met)
      assert.include(linesOf(suite, result).join("\n"), "VOID own at 1: a row is missing")
    })
  )

  it.effect("a run that fails or dies is void, and the others go on", () =>
    Effect.gen(function* () {
      const base = scripted("base", [1, 1, 1, 1, 1, 1])
      const dying = { ...base, name: "own", run: () => Effect.die(new Error("no disk")) }
      const { rows } = yield* run(suiteOf([base, dying]))
      assert.deepStrictEqual(
        rows.map((row) => [row.contender, row.rounds, row.void]),
        [
          ["base", 5, []],
          ["own", 0, ["the run failed: no disk"]]
        ]
      )
    })
  )

  it.effect(
    "a target on a figure is met by its median, one on a ratio against the contender that it names",
    () =>
      Effect.gen(function* () {
        const contenders = [
          scripted("base", [1, 1, 1, 1, 1, 1]),
          scripted("own", [2, 2, 2, 3, 2, 2]),
          scripted("other", [4, 4, 4, 4, 4, 4])
        ]
        const { verdicts } = yield* run(
          suiteOf(contenders, [
            { contender: "own", ratioAtLeast: 2 },
            { contender: "own", ratioAtLeast: 0.6, to: "other" },
            { contender: "own", figure: "perSecond", atMost: 2 }
          ])
        )
        assert.deepStrictEqual(
          verdicts.map(({ met }) => met),
          [true, false, true]
        )
      })
  )

  it("each contender begins a round in its turn", () => {
    assert.deepStrictEqual(
      [0, 1, 2, 3].map((round) => rotated(["a", "b", "c"], round).join("")),
      ["abc", "bca", "cab", "abc"]
    )
  })
})
