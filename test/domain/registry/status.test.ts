import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { statusMomentsKeptMax } from "../../../src/domain/Bounds.ts"
import { RequestKey } from "../../../src/domain/Identity.ts"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { type StatusChange, setStatus, withStatus } from "../../../src/domain/registry/status.ts"
import { lookAt, recordOf, sandboxOf, withDeletion } from "./fixture.ts"
import { freshNode, on, requestOf } from "./guestFixture.ts"

const one = sandboxOf(1)
const origin = {
  key: RequestKey.make("k"),
  hash: "0".repeat(64),
  actor: "tester",
  startedAtMillis: null
}
const change = (status: StatusChange["status"], fields: Partial<StatusChange> = {}): StatusChange => ({
  status,
  reason: null,
  wanted: "start",
  ...fields
})

describe("registry/status", () => {
  it("BX-02 a state is remembered with its time and with what was wanted, oldest first", () => {
    const running = withStatus(recordOf(1), change("Running"), 5)
    const stopping = withStatus(running, change("Stopping", { wanted: "stop" }), 7)
    assert.deepStrictEqual(stopping.history, [
      { status: "Running", atMillis: 5, wanted: "start" },
      { status: "Stopping", atMillis: 7, wanted: "stop" }
    ])
  })

  it("the same state again is no news, another attempt at it is", () => {
    const pending = withStatus(recordOf(1), change("Pending", { reason: "why" }), 5)
    assert.isUndefined(pending.history)
    assert.strictEqual(pending.statusReason, "why")
    const attempt = { runId: "r", attemptId: "a" }
    assert.lengthOf(withStatus(pending, change("Pending", { attempt }), 5).history ?? [], 1)
  })

  it("of many states the newest are kept, exactly as many as the bound says", () => {
    let record = recordOf(1)
    for (let at = 1; at <= statusMomentsKeptMax + 3; at += 1) {
      record = withStatus(record, change(at % 2 === 0 ? "Running" : "Paused"), at)
      assert.lengthOf(record.history ?? [], Math.min(at, statusMomentsKeptMax))
    }
    assert.deepStrictEqual([record.history?.[0]?.atMillis, record.history?.at(-1)?.atMillis], [4, 19])
  })

  it("only the first run of a request is noted on its origin", () => {
    const pending = recordOf(1, { origin })
    assert.isNull(withStatus(pending, change("Failed"), 1).origin?.startedAtMillis)
    const running = withStatus(pending, change("Running"), 2)
    assert.strictEqual(running.origin?.startedAtMillis, 2)
    const again = withStatus(withStatus(running, change("Terminated"), 3), change("Running"), 4)
    assert.strictEqual(again.origin?.startedAtMillis, 2)
    assert.isUndefined(withStatus(recordOf(1), change("Running"), 2).origin)
  })

  it.effect("a change is durable with its moment, and refused once a deletion is intended", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      yield* on(node)(createSandbox(requestOf(1)))
      yield* TestClock.adjust(9)
      yield* on(node)(setStatus(one, change("Failed", { reason: "why" })))
      const durable = (yield* lookAt(node.directory)).get(one)
      assert.deepStrictEqual(durable?.history, [{ status: "Failed", atMillis: 9, wanted: "start" }])
      yield* node.registry.update(one, withDeletion)
      const refusal = yield* Effect.flip(on(node)(setStatus(one, change("Running"))))
      assert.strictEqual(refusal._tag, "SandboxStateRefused")
    })
  )

  it.effect("RG-BUD-03 in a full registry a state is still recorded, without the moments before it", () =>
    Effect.gen(function* () {
      const measured = yield* freshNode()
      yield* on(measured)(createSandbox(requestOf(1)))
      yield* on(measured)(setStatus(one, change("Failed")))
      const { snapshotBytes } = yield* measured.registry.charges
      const node = yield* freshNode({ budgetBytes: snapshotBytes })
      yield* on(node)(createSandbox(requestOf(1)))
      yield* on(node)(setStatus(one, change("Failed")))
      const paused = yield* on(node)(setStatus(one, change("Paused")))
      assert.deepStrictEqual([paused.status, paused.history], ["Paused", undefined])
    })
  )
})
