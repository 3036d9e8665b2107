import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { destroyReusableSandboxLeases } from "../../../src/domain/runLeases/destruction.ts"
import { ActiveStepContext, withRunParent } from "../../../src/domain/runLeases/RunParent.ts"
import { releaseRunLeases } from "../../../src/domain/runLeases/runRelease.ts"
import { TraceParents } from "../../../src/domain/runLeases/TraceParents.ts"
import { driverOf, inDaemon, leaseNow, plainDriver } from "./daemons.ts"
import { newAgent, newEnvironment, newRun, newTenant, onClone, reuseFixture } from "./fixture.ts"
import { newLease } from "./rawRows.ts"
import { scriptedWorkers } from "./scriptedWorkers.ts"

const localLease = Effect.gen(function* () {
  const tenant = yield* newTenant
  const agent = yield* newAgent(tenant)
  const run = yield* newRun(tenant, agent.id)
  const environment = yield* newEnvironment("local")
  const hold = () => newLease(tenant, environment.id, { run_id: run.id, metadata: { driver: "local" } })
  return { tenant, run: run.id, environment, hold }
})

describe("runLeases/runRelease", () => {
  const parent = {
    traceId: "0af7651916cd43dd8448eb211c80319c",
    spanId: "b7ad6b7169203331",
    traceFlags: 1
  }

  it.live("RL-REL-10 one failing lease does not stop the others", () =>
    Effect.gen(function* () {
      const { hold, run } = yield* localLease
      const [failing, healthy] = [yield* hold(), yield* hold()]
      const fault = new Error("driver release failed")
      const plain = plainDriver("local", yield* EnvironmentLeaseStore)
      const driver = driverOf("local", (asked) =>
        asked.lease.id === failing ? Effect.fail(fault) : plain.releaseRunLease(asked)
      )
      const told: Array<readonly [string, Error]> = []
      const released = yield* releaseRunLeases(run, {
        onError: (lease, error) => Effect.sync(() => void told.push([lease, error]))
      }).pipe(inDaemon({ drivers: [driver] }))
      assert.deepStrictEqual(
        released.map(({ lease }) => [lease.id, lease.status]),
        [[healthy, "released"]]
      )
      assert.lengthOf(told, 1)
      assert.strictEqual(told[0]![0], failing)
      assert.strictEqual(told[0]![1], fault)
      assert.strictEqual((yield* leaseNow(healthy)).status, "released")
      assert.strictEqual((yield* leaseNow(failing)).status, "active")
    }).pipe(onClone)
  )

  it.live("RL-DRIVER-01 the lease's recorded driver releases it", () =>
    Effect.gen(function* () {
      const { environment, hold, run } = yield* localLease
      const lease = yield* hold()
      yield* EnvironmentStore.use((store) => store.update(environment.id, { driver: "ssh" }))
      const store = yield* EnvironmentLeaseStore
      const called: Array<string> = []
      const drivers = ["local", "ssh"].map((name) =>
        driverOf(name, (asked) =>
          Effect.suspend(() => {
            called.push(name)
            return plainDriver(name, store).releaseRunLease(asked)
          })
        )
      )
      const released = yield* releaseRunLeases(run).pipe(inDaemon({ drivers }))
      assert.deepStrictEqual(
        released.map((each) => [each.lease.id, each.environment?.driver]),
        [[lease, "ssh"]]
      )
      assert.deepStrictEqual(called, ["local"])
    }).pipe(onClone)
  )

  it.live("RL-REL-10 a driver that is not registered is a fault of that lease alone", () =>
    Effect.gen(function* () {
      const { hold, run } = yield* localLease
      const lease = yield* hold()
      const told: Array<string> = []
      const released = yield* releaseRunLeases(run, {
        onError: (_, error) => Effect.sync(() => void told.push(error.message))
      }).pipe(inDaemon({}))
      assert.isEmpty(released)
      assert.deepStrictEqual(told, [
        'Environment driver "local" is not registered in the environment runtime yet.'
      ])
      assert.strictEqual((yield* leaseNow(lease)).status, "active")
    }).pipe(onClone)
  )

  it.live("RL-REL-01 what is not the run's, or is over, is not touched", () =>
    Effect.gen(function* () {
      const { environment, hold, run, tenant } = yield* localLease
      const mine = yield* hold()
      const orphan = yield* newLease(tenant, environment.id, { metadata: { driver: "local" } })
      const over = yield* newLease(tenant, environment.id, {
        run_id: run,
        status: "failed",
        metadata: { driver: "local" }
      })
      const drivers = [plainDriver("local", yield* EnvironmentLeaseStore)]
      const released = yield* releaseRunLeases(run, { status: "expired" }).pipe(inDaemon({ drivers }))
      assert.deepStrictEqual(
        released.map(({ lease }) => lease.id),
        [mine]
      )
      assert.strictEqual((yield* leaseNow(orphan)).status, "active")
      assert.strictEqual((yield* leaseNow(over)).status, "failed")
    }).pipe(onClone)
  )

  it.live("RL-TRACE-01 what ends a lease later, whoever asks, stands under the same parent", () =>
    Effect.gen(function* () {
      const { lease, tenant, workspace } = yield* reuseFixture({ runStatus: "failed" })
      const seen: Array<unknown> = []
      const workers = scriptedWorkers({
        call: () => Effect.map(ActiveStepContext, (active) => void seen.push(active?.parentContext))
      })
      yield* Effect.gen(function* () {
        const parents = yield* TraceParents
        yield* parents.remember(lease).pipe(withRunParent(parent))
        yield* destroyReusableSandboxLeases({ tenant, executionWorkspace: workspace })
        yield* parents.under(lease)(Effect.map(ActiveStepContext, (active) => void seen.push(active)))
      }).pipe(inDaemon({ workers: workers.manager }))
      // The lease is over: its parent is forgotten.
      assert.deepStrictEqual(seen, [parent, null])
      assert.strictEqual(seen[0], parent)
    }).pipe(onClone)
  )

  for (const isExecutedOn of [true, false]) {
    const rule = isExecutedOn ? "RL-TRACE-01 under the run's parent" : "RL-TRACE-02 under none"
    it.live(`${rule} the release is called`, () =>
      Effect.gen(function* () {
        const { lease, run } = yield* reuseFixture()
        const seen: Array<unknown> = []
        const workers = scriptedWorkers({
          call: () => Effect.map(ActiveStepContext, (active) => void seen.push(active?.parentContext ?? null))
        })
        yield* Effect.gen(function* () {
          if (isExecutedOn)
            yield* TraceParents.use((parents) => parents.remember(lease)).pipe(withRunParent(parent))
          yield* releaseRunLeases(run)
        }).pipe(inDaemon({ workers: workers.manager }))
        assert.lengthOf(seen, 1)
        assert.strictEqual(seen[0], isExecutedOn ? parent : null)
      }).pipe(onClone)
    )
  }
})
