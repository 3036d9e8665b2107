import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { stopInvocationsForAgents } from "../../../src/domain/runLeases/agentStop.ts"
import { WorkStore } from "../../../src/domain/work/WorkStore.ts"
import { inDaemon, leaseNow } from "./daemons.ts"
import { onClone, reusableLeaseId, reuseFixture } from "./fixture.ts"
import { answering, receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const destroyed = answering({ environmentDestroyLease: receiptOf("destroyed") })

describe("runLeases/agentStop", () => {
  it.live("RL-DESTROY-09 stopping an agent destroys its retained leases", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({
        runStatus: "failed",
        lease: { status: "retained", cleanup_status: "failed", lease_policy: "retain_on_failure" }
      })
      const workers = scriptedWorkers({ methods: () => ["environmentDestroyLease"], call: destroyed })
      const stopped = yield* stopInvocationsForAgents([scene.agent], "agent_paused").pipe(
        inDaemon({ workers: workers.manager })
      )
      assert.isTrue(stopped)
      assert.deepStrictEqual(workers.methods(), ["environmentDestroyLease"])
      const [call] = workers.calls
      assert.strictEqual(call!.plugin, scene.plugin.id)
      assert.strictEqual(call!.params["providerLeaseId"], reusableLeaseId)
      assert.isNumber(call!.given[3])
      assert.deepInclude(yield* leaseNow(scene.lease), { status: "expired", cleanupStatus: "success" })
    }).pipe(onClone)
  )

  it.live(
    "RL-DESTROY-09 live runs of the agent end, and what they hold is released; what is left is told",
    () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture()
        const workers = scriptedWorkers({ call: () => Effect.fail(new Error("no")) })
        const stop = stopInvocationsForAgents([scene.agent], "agent_paused").pipe(
          inDaemon({ workers: workers.manager })
        )
        assert.isFalse(yield* stop)
        const run = Option.getOrThrow(yield* WorkStore.use((work) => work.runById(scene.tenant, scene.run)))
        assert.deepInclude(run, { status: "cancelled", errorCode: "agent_paused" })
        assert.strictEqual((yield* leaseNow(scene.lease)).status, "pending_cleanup")
      }).pipe(onClone)
  )

  it.live("RL-DESTROY-09 a lease that no driver here can release is left, and told", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ metadata: { driver: "ssh" } })
      const stopped = yield* stopInvocationsForAgents([scene.agent], "agent_paused").pipe(
        inDaemon({ workers: scriptedWorkers().manager })
      )
      assert.isFalse(stopped)
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "active")
    }).pipe(onClone)
  )

  it.live("RL-DESTROY-09 an agent that holds nothing is stopped", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture({ runStatus: "failed", lease: { status: "expired" } })
      const workers = scriptedWorkers()
      const stop = stopInvocationsForAgents([scene.agent], "agent_paused")
      assert.isTrue(yield* stop.pipe(inDaemon({ workers: workers.manager })))
      assert.isEmpty(workers.calls)
    }).pipe(onClone)
  )
})
