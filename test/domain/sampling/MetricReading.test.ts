/** What a stored figure is worth, by what is known of its machine and its probes. */
import { assert, describe, it } from "@effect/vitest"
import type { RuntimeObserved } from "../../../src/domain/runtimes/Runtime.ts"
import { stateOf } from "../../../src/domain/sampling/MetricReading.ts"

const ready = { state: "ready", isStale: false } as const
const stopped = (isStale: boolean) => ({ state: "stopped", isStale }) as const
const sampling = (isStale: boolean) => ({ state: "sampling", isStale }) as const

const none = { value: null, measuredAtMillis: null }
const at = (measuredAtMillis: number) => ({ value: 0, measuredAtMillis })

const table = [
  ["running", { ...at(7), sampledAtMillis: 7 }, ready],
  ["running", { ...at(6), sampledAtMillis: 7 }, { state: "ready", isStale: true }],
  ["running", { ...none, sampledAtMillis: 7 }, { state: "unavailable", isStale: false }],
  ["running", { ...none, sampledAtMillis: null }, sampling(false)],
  ["running", { ...at(7), sampledAtMillis: null }, sampling(true)],
  ["starting", { ...at(7), sampledAtMillis: 7 }, sampling(true)],
  ["starting", { ...none, sampledAtMillis: null }, sampling(false)],
  ["stopped", { ...at(7), sampledAtMillis: 7 }, stopped(true)],
  ["stopped", { ...none, sampledAtMillis: null }, stopped(false)],
  ["failed", { ...at(7), sampledAtMillis: null }, stopped(true)],
  ["deleting", { ...at(7), sampledAtMillis: 7 }, stopped(true)],
  ["deleted", { ...none, sampledAtMillis: 7 }, stopped(false)],
  ["unprovisioned", { ...none, sampledAtMillis: null }, stopped(false)]
] as const satisfies ReadonlyArray<readonly [RuntimeObserved, object, object]>

describe("stateOf", () => {
  it.each(table)("a metric of a machine that is %s with %j is %j", (observed, figure, expected) => {
    assert.deepStrictEqual(stateOf({ observed, ...figure }), expected)
  })
})
