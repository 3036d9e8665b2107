import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { BuiltInProvider } from "../../../src/domain/providers/BuiltInProviders.ts"
import { releaseRunLeases } from "../../../src/domain/runLeases/runRelease.ts"
import { remoteExecutionHasStopped } from "../../../src/domain/runLeases/stopEvidence.ts"
import { inDaemon, leaseNow, sweepIn } from "./daemons.ts"
import { newAgent, newEnvironment, newRun, newTenant, onClone } from "./fixture.ts"
import { newLease, setLease } from "./rawRows.ts"

const providerLeaseId = "sandbox://fake/run/resource"

const builtInLease = Effect.gen(function* () {
  const tenant = yield* newTenant
  const agent = yield* newAgent(tenant)
  const run = yield* newRun(tenant, agent.id)
  const environment = yield* newEnvironment("sandbox", { provider: "fake", image: "ubuntu:24.04" })
  const lease = yield* newLease(tenant, environment.id, {
    run_id: run.id,
    provider: "fake",
    provider_lease_id: providerLeaseId,
    metadata: { driver: "sandbox", provider: "fake", image: "ubuntu:24.04", reuseLease: true }
  })
  return { tenant, run: run.id, environment, lease }
})

type Stop = NonNullable<BuiltInProvider["stopLease"]>

/** The provider and what it was called for; without a stop it has none. */
const fake = (stop: Stop | undefined) => {
  const called: Array<string> = []
  const noted =
    (verb: string) =>
    (asked: { readonly providerLeaseId: string }): Effect.Effect<unknown, Error> =>
      Effect.sync(() => void called.push(`${verb} ${asked.providerLeaseId}`))
  const provider: BuiltInProvider = {
    key: "fake",
    acquireLease: () => Effect.die(new Error("not asked for")),
    releaseLease: noted("release"),
    destroyLease: noted("destroy"),
    ...(stop === undefined ? {} : { stopLease: (asked) => Effect.andThen(noted("stop")(asked), stop(asked)) })
  }
  return { called, daemon: { builtIns: [provider] } }
}

const works: Stop = (asked) => Effect.succeed({ providerLeaseId: asked.providerLeaseId, state: "stopped" })
const throws: Stop = () => Effect.fail(new Error("provider unavailable"))
const wrong: Stop = () => Effect.succeed({ providerLeaseId: "sandbox://fake/other", state: "stopped" })
const silent: Stop = () => Effect.succeed(undefined)

const stop = (
  scene: Effect.Success<typeof builtInLease>,
  provider: ReturnType<typeof fake>,
  cancelActiveWork: boolean
) =>
  releaseRunLeases(scene.run, { disposition: "stop_and_retain", cancelActiveWork }).pipe(
    inDaemon(provider.daemon)
  )

describe("runLeases/stopAndRetain of a built-in provider", () => {
  for (const cancel of [false, true]) {
    it.live(`RL-STOP-09 built-in stop, cancel ${cancel}`, () =>
      Effect.gen(function* () {
        const scene = yield* builtInLease
        const provider = fake(works)
        const released = yield* stop(scene, provider, cancel)
        assert.lengthOf(released, 1)
        const lease = yield* leaseNow(scene.lease)
        assert.deepInclude(lease, { status: "released", cleanupStatus: "success", failureReason: null })
        assert.deepInclude(lease.metadata["remoteExecutionTermination"], {
          state: "stopped",
          providerLeaseId
        })
        assert.deepStrictEqual(lease.metadata["sandboxStopAndRetainReceipt"], {
          method: "builtin.stopLease",
          builtinProvider: "fake",
          runId: scene.run
        })
        assert.isTrue(yield* remoteExecutionHasStopped(scene.tenant, scene.run))
        assert.deepStrictEqual(provider.called, [`stop ${providerLeaseId}`])
      }).pipe(onClone)
    )
  }

  const rows: ReadonlyArray<readonly [row: string, first: Stop | undefined]> = [
    ["stop_failed", throws],
    ["wrong_receipt", wrong],
    ["missing_capability", undefined],
    ["U6 an empty answer", silent]
  ]
  for (const [row, first] of rows) {
    it.live(`RL-STOP-10 ${row}: kept for the sweep`, () =>
      Effect.gen(function* () {
        const scene = yield* builtInLease
        const broken = fake(first)
        yield* stop(scene, broken, true)
        assert.strictEqual((yield* leaseNow(scene.lease)).status, "pending_cleanup")
        assert.isFalse(yield* remoteExecutionHasStopped(scene.tenant, scene.run))
        if (first === undefined) {
          yield* sweepIn(broken.daemon)
          assert.strictEqual((yield* leaseNow(scene.lease)).status, "pending_cleanup")
        }
        const healed = fake(works)
        yield* sweepIn(healed.daemon)
        assert.deepStrictEqual(healed.called, [`stop ${providerLeaseId}`])
        assert.deepInclude(yield* leaseNow(scene.lease), { status: "released", cleanupStatus: "success" })
        assert.isTrue(yield* remoteExecutionHasStopped(scene.tenant, scene.run))
        assert.isTrue(broken.called.every((each) => each.startsWith("stop")))
      }).pipe(onClone)
    )
  }

  it.live("RL-STOP-10 changed_binding: nothing is sent for another resource", () =>
    Effect.gen(function* () {
      const scene = yield* builtInLease
      yield* stop(scene, fake(throws), true)
      yield* setLease(scene.lease, { provider_lease_id: "sandbox://fake/replacement" })
      const provider = fake(works)
      yield* sweepIn(provider.daemon)
      assert.isEmpty(provider.called)
      assert.strictEqual((yield* leaseNow(scene.lease)).status, "pending_cleanup")
    }).pipe(onClone)
  )

  it.live("U20 the sweep cuts off work exactly where the release was to", () =>
    Effect.gen(function* () {
      const scene = yield* builtInLease
      const cancelled: Array<boolean> = []
      const noting: Stop = (asked) => {
        cancelled.push(asked.cancelActiveWork)
        return cancelled.length < 2 ? silent(asked) : works(asked)
      }
      yield* stop(scene, fake(noting), true)
      yield* sweepIn(fake(noting).daemon)
      assert.deepStrictEqual(cancelled, [true, true])
    }).pipe(onClone)
  )
})
