import { assert, describe, it } from "@effect/vitest"
import { ago, bytes, progressBar, sparkline, table } from "../../../src/infra/cli/text.ts"

describe("text", () => {
  it("a table is aligned by its longest cells and has no space at a line's end", () => {
    assert.deepStrictEqual(
      table([
        ["a", "bbb", "c"],
        ["aaa", "", ""]
      ]),
      ["a    bbb  c", "aaa"]
    )
  })

  it("a bar is never wider than its columns and never shows more than is done", () => {
    for (const fraction of [-1, 0, 0.249, 0.5, 0.999, 1, 2, Number.NaN]) {
      for (const columns of [1, 20, 40, 80, 200]) {
        assert.isBelow(progressBar(fraction, "provision: boot", columns).length, Math.max(2, columns))
      }
    }
    assert.include(progressBar(0.999, "x", 80), " 99%")
    assert.notInclude(progressBar(0.999, "x", 80), "100%")
    assert.notInclude(progressBar(0.999, "x", 80), "]  99%  x.")
    assert.match(progressBar(1, "x", 80), /^\[#+\] 100%/)
    assert.match(progressBar(0, "x", 80), /^\[\.+\] +0%/)
  })

  it("bytes keep their unit below its size and change it at its size", () => {
    assert.deepStrictEqual([0, 1023, 1024, 1536, 1024 ** 2, 8 * 1024 ** 3].map(bytes), [
      "0 B",
      "1023 B",
      "1 KiB",
      "1.5 KiB",
      "1 MiB",
      "8 GiB"
    ])
  })

  it("an age is told in its largest whole unit, and the future as now", () => {
    const now = 10 * 86_400_000
    assert.deepStrictEqual(
      [-5_000, 0, 999, 1_000, 59_999, 60_000, 3_600_000, 90_000_000].map((age) => ago(now - age, now)),
      ["now", "now", "now", "1 s ago", "59 s ago", "1 min ago", "1 h ago", "1 d ago"]
    )
  })

  it("a line of blocks shows the newest values, the smallest lowest and the largest highest", () => {
    assert.strictEqual(sparkline([0, 5, 10], 80), "▁▅█")
    assert.strictEqual(sparkline([9, 0, 10], 2), "▁█")
    assert.strictEqual(sparkline([3, 3], 80), "▁▁")
    assert.strictEqual(sparkline([], 80), "")
  })
})
