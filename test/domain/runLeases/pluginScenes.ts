/** Environments of the driver `plugin`, for the tests of it. */
import * as Effect from "effect/Effect"
import { fakeEntry, newAgent, newEnvironment, newPlugin, newRun, newTenant } from "./fixture.ts"
import { freshRuntime } from "./runtimes.ts"
import { type Answers, answering, scriptedWorkers } from "./scriptedWorkers.ts"

/** What a provider returns that would like to be the host. */
export const returned = {
  driver: "theirs",
  pluginId: "theirs",
  pluginKey: "theirs",
  driverKey: "theirs",
  executionWorkspaceMode: "theirs",
  region: "eu"
}

/** An environment of the driver, its plugin's entry without a kind unless told. */
export const pluginScene = (answers: Answers = {}, entry: Parameters<typeof fakeEntry>[0] = {}) =>
  Effect.gen(function* () {
    const tenant = yield* newTenant
    const agent = (yield* newAgent(tenant)).id
    const run = (yield* newRun(tenant, agent)).id
    const plugin = yield* newPlugin({
      key: "acme.environments",
      entries: [fakeEntry({ kind: undefined, configSchema: undefined, ...entry })]
    })
    const environment = yield* newEnvironment("plugin", {
      pluginKey: "acme.environments",
      driverKey: "fake-plugin",
      driverConfig: { template: "base" }
    })
    const workers = scriptedWorkers({
      call: answering({
        environmentAcquireLease: { providerLeaseId: "p-1", metadata: returned },
        environmentResumeLease: ({ params }) => ({
          providerLeaseId: params["providerLeaseId"],
          metadata: { resumed: true }
        }),
        environmentRealizeWorkspace: { cwd: "/workspace/project", metadata: { realized: true } },
        environmentExecute: { exitCode: 0, signal: null, timedOut: false, stdout: "ok", stderr: "" },
        ...answers
      })
    })
    const runtime = yield* freshRuntime({ workers: workers.manager })
    const asked = { tenant, environment, task: null, run, executionWorkspace: null }
    return { tenant, run, plugin, environment, workers, runtime, asked }
  })

/** The same with a lease, and its calls forgotten. */
export const leasedByPlugin = Effect.gen(function* () {
  const scene = yield* pluginScene()
  const { lease } = yield* scene.runtime.acquireRunLease(scene.asked)
  scene.workers.reset()
  return { ...scene, lease, place: { environment: scene.environment, lease } }
})
