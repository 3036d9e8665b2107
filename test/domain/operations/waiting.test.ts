import { assert, describe, it } from "@effect/vitest"
import { nodeUnseenSeconds, operationsAheadCountedMax } from "../../../src/domain/Bounds.ts"
import { NodeId } from "../../../src/domain/Identity.ts"
import { type QueueSight, waitingOf } from "../../../src/domain/operations/waiting.ts"
import { operation } from "./builders.ts"

const queuedAtMillis = 1_800_000_000_000
const id = NodeId.make("00000000-0000-4000-8000-00000000000e")

const nodeUnseenFor = (unseenSeconds: number | null): QueueSight["node"] => ({
  id,
  name: unseenSeconds === null ? null : "build-7",
  lastSeenAtMillis: unseenSeconds === null ? null : queuedAtMillis + 5_000,
  unseenSeconds
})

const sight = (given: Partial<QueueSight> = {}): QueueSight => ({
  operation: operation().id,
  queuedAtMillis,
  node: nodeUnseenFor(1),
  allUnseenSeconds: 1,
  ahead: 0,
  ...given
})

const queued = { state: "queued", step: null } as const
const claimed = { state: "claimed", step: null } as const

describe("waitingOf", () => {
  it("FC-06 a queued operation waits for the node that carries its machine, since that was last seen", () => {
    const waiting = waitingOf(queued, sight({ node: nodeUnseenFor(nodeUnseenSeconds + 1), ahead: 3 }))
    assert.deepStrictEqual(waiting, {
      kind: "node",
      for: "node build-7, which carries its machine and which was last seen at 2027-01-15T08:00:05.000Z",
      sinceMillis: queuedAtMillis + 5_000
    })
  })

  it("FC-06 it never waits since before it was asked for", () => {
    const before = { ...nodeUnseenFor(90)!, lastSeenAtMillis: queuedAtMillis - 60_000 }
    assert.strictEqual(waitingOf(queued, sight({ node: before }))?.sinceMillis, queuedAtMillis)
  })

  it("FC-06 a node within its heartbeat is not waited for", () => {
    assert.strictEqual(waitingOf(queued, sight({ node: nodeUnseenFor(nodeUnseenSeconds) }))?.kind, "place")
  })

  it("FC-06 a node that was never seen is told by its id", () => {
    const waiting = waitingOf(queued, sight({ node: nodeUnseenFor(null) }))
    assert.strictEqual(waiting?.kind, "node")
    assert.include(waiting?.for, id)
    assert.strictEqual(waiting?.sinceMillis, queuedAtMillis)
  })

  it("FC-06 what any node may begin waits for any node while none was seen", () => {
    for (const allUnseenSeconds of [null, nodeUnseenSeconds + 1]) {
      const waiting = waitingOf(queued, sight({ node: null, allUnseenSeconds, ahead: 2 }))
      assert.deepInclude(waiting, { kind: "node", sinceMillis: queuedAtMillis })
      assert.include(waiting?.for, "any node")
    }
  })

  it.each([
    [1, "1 operation of its queue"],
    [2, "2 operations of its queue"],
    [operationsAheadCountedMax, `${operationsAheadCountedMax} or more operations of its queue`]
  ])("FC-06 behind %d others it waits for %s", (ahead, words) => {
    const waiting = waitingOf(queued, sight({ ahead }))
    assert.deepInclude(waiting, { kind: "operations", sinceMillis: queuedAtMillis })
    assert.include(waiting?.for, words)
  })

  it("FC-06 a claimed operation waits for a place until its first step, or for the node of its claimant", () => {
    assert.strictEqual(waitingOf(claimed, sight())?.kind, "place")
    assert.isNull(waitingOf({ ...claimed, step: "image" }, sight()))
    const lost = waitingOf({ ...claimed, step: "image" }, sight({ node: nodeUnseenFor(600) }))
    assert.strictEqual(lost?.kind, "node")
    assert.include(lost?.for, "whose daemon has claimed it")
  })

  it("what is settled waits for nothing, and what was not looked at is not guessed", () => {
    for (const state of ["succeeded", "failed", "superseded"] as const) {
      assert.isNull(waitingOf({ state, step: null }, sight()))
    }
    assert.isNull(waitingOf(queued, undefined))
  })
})
