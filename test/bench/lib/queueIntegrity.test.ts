/** What voids a figure of P4 and P6: an operation that did not end, a Project that is not trimmed, a receipt that was. */
import { assert, describe, it } from "@effect/vitest"
import { drained, drainFaults } from "../../../bench/lib/drainWork.ts"
import { queueFaultsOf } from "../../../bench/lib/flatQueueWork.ts"

describe("bench/lib/drainWork", () => {
  const whole = { live: 0, others: 0, untrimmed: 0, owing: drained / 10 }

  it.each([
    ["an operation that is live", { ...whole, live: 1 }],
    ["one that has not succeeded", { ...whole, others: 1 }],
    ["a Project that keeps too many or too few", { ...whole, untrimmed: 1 }],
    ["a receipt that was trimmed though it owes", { ...whole, owing: drained / 10 - 1 }]
  ])("%s voids the drain", (_, row) => {
    assert.deepStrictEqual(drainFaults(whole), [])
    assert.lengthOf(drainFaults(row), 1)
  })
})

describe("bench/lib/flatQueueWork", () => {
  const whole = { live: 64, others: 0, untrimmed: 0 }

  it.each([
    ["a queue of another depth", { ...whole, live: 63 }],
    ["an operation that has not succeeded", { ...whole, others: 2 }],
    ["a Project that is not trimmed", { ...whole, untrimmed: 1 }]
  ])("%s voids the figures", (_, row) => {
    assert.deepStrictEqual(queueFaultsOf(whole), [])
    assert.lengthOf(queueFaultsOf(row), 1)
  })
})
