/** Workspaces in leased sandboxes: where the provider put them, and what the host had asked for. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { newEnvironment, onClone } from "./fixture.ts"
import { freshRuntime } from "./runtimes.ts"
import type { Answers } from "./scriptedWorkers.ts"

const config = { provider: "fake-plugin", image: "fake:test", timeoutMs: 1234, reuseLease: false }
const command = { command: "echo", args: ["hello"], cwd: "/workspace", env: { A: "1" } }

/** An ephemeral lease of a plugin's sandbox. */
const leased = (answers: Answers = {}) =>
  Effect.gen(function* () {
    const scene = yield* leasedPlugin({ config, answers })
    const { lease } = yield* scene.runtime.acquireRunLease(acquisitionOf(scene))
    scene.workers.reset()
    return { ...scene, asked: { environment: scene.environment, lease } }
  })

describe("realization", () => {
  const request = (scene: { readonly tenant: string; readonly run: string }, environment: string) => ({
    version: 1,
    adapterType: null,
    tenantId: scene.tenant,
    environmentId: environment,
    executionWorkspaceId: null,
    taskId: null,
    runId: scene.run,
    requestedMode: "ephemeral",
    source: { kind: "project_primary", localPath: "/tmp/project", projectId: "project-1" },
    additionalSources: [{ localPath: "/tmp/referenced-project", projectId: "referenced-project-1" }]
  })

  const additional = (metadata: object) =>
    (metadata as { workspaceRealization: { additional: ReadonlyArray<object> } }).workspaceRealization
      .additional

  it.live("RL-WORKSPACE-01 the host records what it asked for beside the plugin's answer", () =>
    Effect.gen(function* () {
      const answer = {
        cwd: "/workspace/project",
        metadata: { provider: "fake-plugin", remoteCwd: "/workspace" }
      }
      const scene = yield* leased({ environmentRealizeWorkspace: answer })
      const workspaceRealizationRequest = request(scene, scene.environment.id)
      const workspace = {
        localPath: "/tmp/project",
        mode: "ephemeral",
        metadata: { workspaceRealizationRequest }
      }
      const realized = yield* scene.runtime.realizeWorkspace({ ...scene.asked, workspace })
      assert.strictEqual(realized.cwd, "/workspace/project")
      assert.strictEqual(realized.metadata["provider"], "fake-plugin")
      const [only, ...others] = additional(realized.metadata)
      assert.deepStrictEqual(others, [])
      assert.deepInclude(only, { path: "/tmp/referenced-project", projectId: "referenced-project-1" })
      const [call] = scene.workers.calls
      assert.strictEqual(call?.method, "environmentRealizeWorkspace")
      assert.deepInclude(call?.params["workspace"], { localPath: "/tmp/project", mode: "ephemeral" })
      assert.strictEqual(call?.given.length, 4)
    }).pipe(onClone)
  )

  it.live("RL-WORKSPACE-02 RL-EXEC-01 and beside a built-in sandbox's, which executes too", () =>
    Effect.gen(function* () {
      const scene = yield* leased()
      const fake = makeFakeProvider()
      const environment = yield* newEnvironment("sandbox", { provider: "fake", image: "ubuntu:24.04" })
      const runtime = yield* freshRuntime({ builtIns: [fake.provider] })
      const { lease } = yield* runtime.acquireRunLease({ ...acquisitionOf(scene), environment })
      const workspaceRealizationRequest = request(scene, environment.id)
      const workspace = {
        localPath: "/tmp/project",
        mode: "ephemeral",
        metadata: { workspaceRealizationRequest }
      }
      const realized = yield* runtime.realizeWorkspace({ environment, lease, workspace })
      assert.deepInclude(additional(realized.metadata)[0], { path: "/tmp/referenced-project" })
      const answer = yield* runtime.execute({ environment, lease, ...command })
      assert.deepInclude(answer, { exitCode: 0, stdout: "echo hello\n" })
    }).pipe(onClone)
  )
})
