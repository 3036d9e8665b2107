/** What is told when the provider of a lease that is in use cannot be called. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { fakeEntry, newPlugin, onClone, reuseFixture } from "./fixture.ts"
import { freshRuntime } from "./runtimes.ts"
import { scriptedWorkers } from "./scriptedWorkers.ts"

const command = { command: "true", args: [], cwd: "/", env: {} }

describe("leaseTarget", () => {
  it.live(
    "RL-ACQ-07 RL-ACQ-08 a process without workers is told from a worker that is away, and no sibling serves",
    () =>
      Effect.gen(function* () {
        const scene = yield* reuseFixture()
        const lease = Option.getOrThrow(
          yield* EnvironmentLeaseStore.use((store) => store.getLeaseById(scene.lease))
        )
        const place = { environment: scene.environment, lease }
        const unwired = yield* freshRuntime({ workers: null })
        assert.include(
          (yield* Effect.flip(unwired.execute({ ...place, ...command }))).message,
          "sandbox provider workers are unavailable in this server process"
        )
        yield* newPlugin({ key: "acme.sibling", entries: [fakeEntry()], installOrder: -1 })
        const workers = scriptedWorkers({ isRunning: (plugin) => plugin !== scene.plugin.id })
        const runtime = yield* freshRuntime({ workers: workers.manager })
        const workspace = { localPath: "/tmp", mode: "ephemeral" }
        const isAway = Effect.gen(function* () {
          for (const call of [
            Effect.asVoid(runtime.execute({ ...place, ...command })),
            Effect.asVoid(runtime.realizeWorkspace({ ...place, workspace })),
            Effect.asVoid(runtime.resumeRunLease(place))
          ]) {
            assert.include((yield* Effect.flip(call)).message, "its worker is not running")
          }
        })
        yield* isAway
        yield* ProviderPlugins.use((plugins) => plugins.remove(scene.plugin.id))
        yield* isAway
        assert.deepStrictEqual(workers.calls, [])
      }).pipe(onClone)
  )
})
