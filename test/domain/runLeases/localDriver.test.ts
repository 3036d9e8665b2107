/** The driver `local` on a real clone, with real processes of this machine. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import type { EnvironmentLease } from "../../../src/domain/environments/EnvironmentLease.ts"
import { LocalCommands, LocalProcessesRemain } from "../../../src/domain/runLeases/LocalCommands.ts"
import { localDriver } from "../../../src/domain/runLeases/localDriver.ts"
import * as Commands from "../../../src/infra/guests/LocalCommands.ts"
import { newAgent, newEnvironment, newRun, newTenant, onClone } from "./fixture.ts"
import { leaseRow } from "./rawRows.ts"
import { freshRuntime } from "./runtimes.ts"

const scene = Effect.gen(function* () {
  const tenant = yield* newTenant
  const run = yield* newRun(tenant, (yield* newAgent(tenant)).id)
  const environment = yield* newEnvironment("local")
  return { tenant, environment, task: null, run: run.id, executionWorkspace: null }
})

const statusOf = (lease: EnvironmentLease) => Effect.map(leaseRow(lease.id), (row) => row?.["status"])

describe("runLeases/localDriver", () => {
  it.live("RL-ACQ-01 a local lease without a workspace, from its command to its end", () =>
    onClone(
      Effect.gen(function* () {
        const asked = yield* scene
        const runtime = yield* freshRuntime({ drivers: [yield* localDriver] })
        const { lease, leaseContext } = yield* runtime.acquireRunLease(asked)
        assert.deepInclude(lease, { status: "active", executionWorkspace: null, provider: null })
        assert.deepInclude(lease.metadata, { driver: "local", executionWorkspaceMode: null })
        assert.deepStrictEqual(leaseContext, { executionWorkspaceId: null, executionWorkspaceMode: null })
        const place = { environment: asked.environment, lease }
        const { cwd } = yield* runtime.realizeWorkspace({
          ...place,
          workspace: { localPath: "/tmp", mode: "shared_workspace" }
        })
        const said = yield* runtime.execute({ ...place, command: "pwd", args: [], cwd, env: {} })
        assert.deepInclude(said, { exitCode: 0, stdout: "/tmp\n" })
        const [released] = yield* runtime.releaseRunLeases(asked.run)
        assert.strictEqual(released?.lease.status, "released")
        assert.deepInclude(yield* leaseRow(lease.id), { cleanup_status: "success", ended_by: "run" })
      }).pipe(Effect.provide(Commands.layer))
    )
  )

  it.live("RL-REL-10 processes that cannot be ended keep the lease active; whoever releases is told", () =>
    onClone(
      Effect.gen(function* () {
        const asked = yield* scene
        const stuck = LocalCommands.of({
          run: () => Effect.never,
          endAll: (lease) => Effect.fail(new LocalProcessesRemain({ lease, processes: 1 }))
        })
        const driver = yield* Effect.provideService(localDriver, LocalCommands, stuck)
        const runtime = yield* freshRuntime({ drivers: [driver] })
        const { lease } = yield* runtime.acquireRunLease(asked)
        const told: Array<EnvironmentLeaseId> = []
        const released = yield* runtime.releaseRunLeases(asked.run, {
          onError: (id) => Effect.sync(() => void told.push(id))
        })
        assert.deepStrictEqual([released, told], [[], [lease.id]])
        assert.strictEqual(yield* statusOf(lease), "active")
      })
    )
  )

  it.live("U13 every disposition is a plain release", () =>
    onClone(
      Effect.gen(function* () {
        const first = yield* scene
        const runtime = yield* freshRuntime({ drivers: [yield* localDriver] })
        for (const disposition of ["keep_running", "stop_and_retain"] as const) {
          const { lease } = yield* runtime.acquireRunLease(first)
          yield* runtime.releaseRunLeases(first.run, { disposition })
          assert.strictEqual(yield* statusOf(lease), "released", disposition)
        }
      }).pipe(Effect.provide(Commands.layer))
    )
  )
})
