/** Acquisitions as the tests of run leases ask for them, over the standard fixture. */
import * as Effect from "effect/Effect"
import type { Environment } from "../../../src/domain/environments/Environment.ts"
import type {
  AgentId,
  EnvironmentLeaseId,
  ExecutionWorkspaceId,
  RunId,
  TaskId,
  TenantId
} from "../../../src/domain/Identity.ts"
import type { Acquisition } from "../../../src/domain/runLeases/EnvironmentDriver.ts"
import { type ReuseOptions, reuseFixture } from "./fixture.ts"
import { setLease } from "./rawRows.ts"
import { freshRuntime, type RuntimeParts } from "./runtimes.ts"
import { type Answers, answering, lifecycleMethods, scriptedWorkers } from "./scriptedWorkers.ts"

export interface Scene {
  readonly tenant: TenantId
  readonly agent: AgentId
  readonly run: RunId
  readonly task: TaskId
  readonly workspace: ExecutionWorkspaceId
  readonly environment: Environment
  readonly lease: EnvironmentLeaseId
}

/** The scene's run asks for its environment, in its workspace and without a task. */
export const acquisitionOf = (scene: Scene): Acquisition => ({
  tenant: scene.tenant,
  environment: scene.environment,
  task: null,
  run: scene.run,
  agent: scene.agent,
  executionWorkspace: { id: scene.workspace, mode: "shared_workspace" }
})

export interface LeasedPluginOptions extends ReuseOptions {
  readonly methods?: ReadonlyArray<string>
  readonly answers?: Answers
  readonly parts?: RuntimeParts
}

/** Answers `sandbox-1`, `sandbox-2` and so on to acquisitions, and resumes whatever it is asked for. */
export const sandboxAnswers = (): Answers => {
  let made = 0
  return {
    environmentAcquireLease: () => ({ providerLeaseId: `sandbox-${(made += 1)}` }),
    environmentResumeLease: ({ params }) => ({
      providerLeaseId: params["providerLeaseId"],
      metadata: { resumed: true }
    })
  }
}

/** F-REUSE with its lease over, a runtime, and workers that do as they are asked. */
export const leasedPlugin = (options: LeasedPluginOptions = {}) =>
  Effect.gen(function* () {
    const scene = yield* reuseFixture(options)
    yield* setLease(scene.lease, { status: "expired", cleanup_status: "success" })
    const workers = scriptedWorkers({
      methods: () => options.methods ?? lifecycleMethods,
      call: answering({ ...sandboxAnswers(), ...options.answers })
    })
    const parts = { workers: workers.manager, ...options.parts }
    const runtime = yield* freshRuntime(parts)
    return { ...scene, workers, runtime, another: freshRuntime(parts) }
  })
