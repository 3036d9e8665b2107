/** The sampler: probes outside any transaction, records what was measured, and never runs twice at once. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/testing/TestClock"
import { sampleBatchMillis, sampleIntervalMillis, samplesAtOnceMax } from "../../../src/domain/Bounds.ts"
import { GuestCapabilities, GuestSample } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestFailure, GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { Generation, ProjectId, SandboxId } from "../../../src/domain/Identity.ts"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { sampleRuntimes, samplingLoop } from "../../../src/domain/sampling/sampleLoop.ts"
import { SampleBatches } from "../../../src/domain/sampling/SampleBatches.ts"
import { SampleStore, SampleTargets } from "../../../src/domain/sampling/SampleStore.ts"
import { node, onClone, seedRuntime, sql } from "../leases/fixture.ts"
import { everythingStored } from "./samples.ts"

const figures = new GuestSample({
  cpuMicros: 700,
  memoryBytes: 64,
  memoryPeakBytes: 65,
  diskBytes: null,
  ioReadBytes: 1,
  ioWriteBytes: 2,
  processes: 4
})

const capabilities = new GuestCapabilities({
  supervisor: "scripted",
  isolation: "none",
  limits: "none",
  pause: false,
  survivesDaemon: false,
  privateUser: false,
  seccomp: false,
  ports: false,
  proof: "process"
})

/** A supervisor of which only the probe is used. */
const probing = (sample: (sandbox: SandboxId) => Effect.Effect<GuestSample, GuestFailure>) =>
  Effect.provide(Layer.mock(GuestSupervisor)({ capabilities, sample }))

const failing = (sandbox: SandboxId) =>
  Effect.fail(new GuestFailure({ sandbox, step: "sample", detail: "the cgroup cannot be read" }))

describe("sampleRuntimes", () => {
  it.live("records running runtimes of this node only, with the probe outside any transaction", () =>
    Effect.gen(function* () {
      const running = yield* seedRuntime("running")
      const stopped = yield* seedRuntime("stopped")
      const elsewhere = yield* seedRuntime("elsewhere")
      yield* sql("update runtimes set observed = 'stopped' where project_id = $1::bigint", [stopped.project])
      yield* sql("insert into nodes (id, name) values ('00000000-0000-4000-8000-0000000000ff', 'another')")
      yield* sql(
        "update runtimes set node_id = '00000000-0000-4000-8000-0000000000ff' where project_id = $1::bigint",
        [elsewhere.project]
      )
      const probed: Array<SandboxId> = []
      const outcomes = yield* sampleRuntimes(node).pipe(
        probing((sandbox) =>
          Effect.gen(function* () {
            assert.isTrue(Option.isNone(yield* Effect.serviceOption(PluginTx)))
            probed.push(sandbox)
            return figures
          })
        )
      )
      assert.deepStrictEqual(probed, [running.sandbox])
      assert.deepStrictEqual(outcomes, [{ project: running.project, outcome: "recorded" }])
      const { hours, minutes } = yield* everythingStored
      const values = Object.fromEntries(minutes.map((row) => [row["metric"], row["total"]]))
      assert.deepStrictEqual(values, {
        cpu_usec: 700,
        memory_bytes: 64,
        memory_peak_bytes: 65,
        io_read_bytes: 1,
        io_write_bytes: 2,
        pids: 4
      })
      assert.lengthOf(hours, minutes.length)
      const late = yield* sql(
        "select 1 from runtimes where abs(extract(epoch from sample_started_at - now())) < 60"
      )
      assert.lengthOf(late, 1, "the sample's time is the database's")
    }).pipe(onClone)
  )

  it.live("a failed probe keeps the old values, marks them stale, and adds nothing to the history", () =>
    Effect.gen(function* () {
      const { project } = yield* seedRuntime()
      yield* sampleRuntimes(node).pipe(probing(() => Effect.succeed(figures)))
      const before = yield* everythingStored
      const outcomes = yield* sampleRuntimes(node).pipe(probing(failing))
      assert.deepStrictEqual(outcomes, [{ project, outcome: "unmeasured" }])
      const { latest } = yield* SampleTargets
      const { readings } = Option.getOrThrow(yield* latest(project))
      assert.deepInclude(readings.pids, { state: "ready", isStale: true, value: 4 })
      assert.deepInclude(readings.disk_bytes, { state: "unavailable", isStale: false, value: null })
      const after = yield* everythingStored
      assert.deepStrictEqual([after.minutes, after.hours], [before.minutes, before.hours])
    }).pipe(onClone)
  )

  it.live("a sample of a machine that was replaced or restarted during the probe is dropped", () =>
    Effect.gen(function* () {
      const { project } = yield* seedRuntime()
      const db = yield* PluginDb
      for (const column of ["generation", "refresh_epoch"]) {
        const change = db.query({
          operation: "test",
          text: `update runtimes set ${column} = ${column} + 1`
        })
        const outcomes = yield* sampleRuntimes(node).pipe(
          // A probe fails as a guest does, not as a database.
          probing(() => Effect.as(Effect.orDie(change), figures))
        )
        assert.deepStrictEqual(outcomes, [{ project, outcome: "stale" }])
      }
      assert.deepStrictEqual((yield* everythingStored).minutes, [])
    }).pipe(onClone)
  )

  it.effect(
    "no probe waits for the records of others: a whole node is probed before the first batch goes",
    () =>
      Effect.gen(function* () {
        const targets = Array.from({ length: 3 * samplesAtOnceMax }, (_, at) => ({
          project: ProjectId.make(at + 1),
          generation: Generation.make(1),
          refreshEpoch: 0,
          sandbox: SandboxId.make(`sb-00000000-0000-4000-8000-${String(at).padStart(12, "0")}`)
        }))
        let probed = 0
        const store = Layer.succeed(SampleStore, {
          recordMany: (samples) =>
            Effect.succeed({ accepted: new Set(samples.map(({ project }) => project)), busy: new Set() })
        })
        const ports = Layer.mergeAll(
          Layer.mock(SampleTargets)({ running: () => Effect.succeed({ nowMillis: 0, targets }) }),
          SampleBatches.layer.pipe(Layer.provide(store))
        )
        const counted = probing(() => Effect.sync(() => ((probed += 1), figures)))
        const tick = yield* sampleRuntimes(node).pipe(counted, Effect.provide(ports), Effect.forkChild)
        yield* TestClock.adjust(0)
        assert.strictEqual(probed, targets.length)
        yield* TestClock.adjust(sampleBatchMillis)
        const outcomes = yield* Fiber.join(tick)
        assert.isTrue(outcomes.every(({ outcome }) => outcome === "recorded"))
        assert.lengthOf(outcomes, targets.length)
      })
  )

  it.effect("a tick that takes longer than the interval is not joined by a second one", () =>
    Effect.gen(function* () {
      let ticks = 0
      let atOnce = 0
      let atOnceMost = 0
      const running = Effect.gen(function* () {
        ticks += 1
        atOnce += 1
        atOnceMost = Math.max(atOnceMost, atOnce)
        yield* Effect.sleep(2.5 * sampleIntervalMillis)
        atOnce -= 1
        return { nowMillis: 0, targets: [] }
      })
      const ports = Layer.mergeAll(
        Layer.mock(SampleTargets)({ running: () => running }),
        Layer.mock(SampleBatches)({})
      )
      const loop = yield* samplingLoop(node).pipe(probing(failing), Effect.provide(ports), Effect.forkChild)
      yield* TestClock.adjust(10 * sampleIntervalMillis)
      yield* Fiber.interrupt(loop)
      assert.strictEqual(atOnceMost, 1)
      assert.isAtLeast(ticks, 3)
    })
  )
})
