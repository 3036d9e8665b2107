import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import {
  quantityCharactersMax,
  sandboxCpuMillisMax,
  sandboxMemoryBytesMax
} from "../../../src/domain/Bounds.ts"
import { readCpuMillis, readMemoryBytes } from "../../../src/domain/registry/quantity.ts"

const bytes: ReadonlyArray<readonly [text: string, bytes: number]> = [
  ["1", 1],
  ["1000m", 1],
  ["1K", 1_000],
  ["1M", 1_000_000],
  ["1G", 1_000_000_000],
  ["1T", 1_000_000_000_000],
  ["1Ki", 1_024],
  ["1Mi", 1_024 ** 2],
  ["1Gi", 1_024 ** 3],
  ["16Ti", sandboxMemoryBytesMax],
  ["1.5Gi", 1_610_612_736],
  ["0.001K", 1],
  ["0.0009765625Ki", 1],
  ["007", 7],
  [`${"0".repeat(quantityCharactersMax - 1)}1`, 1]
]

const wrongForm = [
  "",
  " 1",
  "1 ",
  "+1",
  "-1",
  "1e3",
  ".5",
  "1.",
  "1,5",
  "0x10",
  "1k",
  "1KI",
  "1Pi",
  "1P",
  "1mm",
  "m",
  "Infinity",
  "NaN",
  "١",
  "1\n",
  `${"0".repeat(quantityCharactersMax)}1`
]

const whyOf = (read: Result.Result<number, string>): string => (Result.isFailure(read) ? read.failure : "")

describe("registry/quantity", () => {
  it.each(bytes)("%s of memory is %d bytes", (text, count) => {
    assert.deepStrictEqual(readMemoryBytes(text), Result.succeed(count))
  })

  it.each([
    ["2", 2_000],
    ["0.5", 500],
    ["500m", 500],
    ["1m", 1],
    ["0.001", 1],
    ["1K", 1_000_000],
    ["1Ki", 1_024_000],
    ["1024", sandboxCpuMillisMax]
  ] as const)("%s of cpu is %d thousandths", (text, count) => {
    assert.deepStrictEqual(readCpuMillis(text), Result.succeed(count))
  })

  it.each(wrongForm)("%j is no quantity", (text) => {
    for (const read of [readCpuMillis, readMemoryBytes])
      assert.match(whyOf(read(text)), /must be a decimal of at most 32 characters/)
  })

  it("zero is refused in every form", () => {
    for (const text of ["0", "0.0", "0m", "0Ti", "000.000Ki"]) {
      for (const read of [readCpuMillis, readMemoryBytes])
        assert.strictEqual(whyOf(read(text)), "must be more than zero")
    }
  })

  it("what is no whole unit is refused and never rounded", () => {
    for (const text of ["0.0001", "0.5m", "1.0005"])
      assert.strictEqual(whyOf(readCpuMillis(text)), "must be a whole number of thousandths of a CPU")
    for (const text of ["1m", "0.1", "1.5", "0.0001K", "1.3Ki"])
      assert.strictEqual(whyOf(readMemoryBytes(text)), "must be a whole number of bytes")
  })

  it("one unit more than the bound, and what would overflow a number, are refused", () => {
    for (const text of ["1024.001", "1T", "99999999999999999999999999999Ti"])
      assert.match(whyOf(readCpuMillis(text)), /must not be more than 1024000 /)
    for (const text of [String(sandboxMemoryBytesMax + 1), "17Ti", "99999999999999999999999999999Ti"])
      assert.match(whyOf(readMemoryBytes(text)), /must not be more than 17592186044416 bytes/)
  })

  it.prop(
    "every whole number of units up to the bound reads as itself, with any suffix that divides it",
    {
      count: Arbitrary.schema(
        Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: sandboxMemoryBytesMax }))
      )
    },
    ({ count }) => {
      assert.deepStrictEqual(readMemoryBytes(String(count)), Result.succeed(count))
      const thousands = `${Math.floor(count / 1_000)}.${String(count % 1_000).padStart(3, "0")}K`
      assert.deepStrictEqual(readMemoryBytes(thousands), Result.succeed(count))
      if (count % 1_024 === 0)
        assert.deepStrictEqual(readMemoryBytes(`${count / 1_024}Ki`), Result.succeed(count))
    }
  )
})
