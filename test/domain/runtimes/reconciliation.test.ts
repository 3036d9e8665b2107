/** What a runtime's row is corrected to by its sandbox's record, and how long its machine lives. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { sandboxLifeSecondsMax } from "../../../src/domain/Bounds.ts"
import { Generation, ProjectId, SandboxId } from "../../../src/domain/Identity.ts"
import { SandboxRecord, type SandboxStatus } from "../../../src/domain/registry/Record.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { correctionOf, isRenewalDue, reconcileRuntimes } from "../../../src/domain/runtimes/reconciliation.ts"
import { Runtime, type RuntimeObserved } from "../../../src/domain/runtimes/Runtime.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { supersedeOperation } from "../../../src/domain/operations/supersede.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { carryOut, claim } from "../operations/actionCases.ts"
import { endByItself } from "../../../src/infra/guests/scriptedState.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import {
  fixture,
  newProject,
  provisioned,
  requestOf,
  type Scene,
  Scripted,
  undispatched
} from "../removal/fixture.ts"

const sandbox = SandboxId.make("sb-00000000-0000-4000-8000-000000000001")

const runtime = (observed: RuntimeObserved, machine: SandboxId | null = sandbox) =>
  new Runtime({
    project: ProjectId.make(1),
    generation: Generation.make(1),
    sandbox: machine,
    desired: "running",
    observed,
    observedReason: null,
    recipe: null,
    refreshEpoch: 0,
    sampleStartedAtMillis: null
  })

const record = (status: SandboxStatus) =>
  new SandboxRecord({
    id: sandbox,
    generation: Generation.make(1),
    runId: "",
    attemptId: "",
    image: "host",
    argv: [],
    environment: {},
    metadata: {},
    cpuMillis: 1,
    memoryBytes: 1,
    processesMax: 32,
    disk: null,
    createdAtMillis: 0,
    expiresAtMillis: 1,
    status,
    statusReason: status === "Failed" ? "lost to a reboot" : null,
    deletion: null,
    endpointToken: "0".repeat(64)
  })

describe("runtimes/reconciliation", () => {
  it.each([
    ["running", "Failed", { observed: "failed", reason: "lost to a reboot" }],
    ["running", "Terminated", { observed: "stopped", reason: null }],
    ["stopped", "Running", { observed: "running", reason: null }],
    ["failed", "Paused", { observed: "running", reason: null }],
    ["running", "Running", null],
    ["running", "Paused", null],
    ["running", "Stopping", null],
    ["running", "Pending", null],
    ["starting", "Failed", { observed: "failed", reason: "lost to a reboot" }],
    ["starting", "Pending", null],
    ["deleting", "Failed", null],
    ["unprovisioned", "Running", null]
  ] as const)("a runtime %s whose sandbox is %s is corrected to %o", (observed, status, expected) => {
    assert.deepStrictEqual(correctionOf(runtime(observed), record(status)), expected)
  })

  it("a machine without a record is failed, never taken for absent", () => {
    assert.strictEqual(correctionOf(runtime("running"), undefined)?.observed, "failed")
  })

  it("a runtime without a machine is left alone, unless it is said to start", () => {
    assert.strictEqual(correctionOf(runtime("unprovisioned", null), undefined), null)
    assert.strictEqual(correctionOf(runtime("starting", null), undefined)?.observed, "failed")
  })

  const lifeMillis = sandboxLifeSecondsMax * 1_000
  it.each([
    [lifeMillis, false],
    [lifeMillis / 2, false],
    [lifeMillis / 2 - 1, true],
    [0, true],
    [-1, true]
  ])("a machine that has %i ms to live is renewed: %s", (leftMillis, isDue) => {
    const lasting = new SandboxRecord({ ...record("Running"), expiresAtMillis: 10_000 + leftMillis })
    assert.strictEqual(isRenewalDue(lasting, 10_000), isDue)
    const deletion = { reason: "user", actor: "uid:0", requestedAtMillis: 1 } as const
    assert.isFalse(isRenewalDue(new SandboxRecord({ ...lasting, deletion }), 10_000))
  })

  layer(undispatched, { excludeTestServices: true, timeout: "60 seconds" })((live) => {
    /** An operation that has begun its step, was given back and is queued again. */
    const givenBackBefore = (scene: Scene, action: "provision" | "start", at: string) =>
      Effect.gen(function* () {
        const { operation } = yield* admitOperation(scene.caller, requestOf(scene.project, action))
        const cut = {
          before: (_: string, step: string) => (step === at ? Effect.interrupt : Effect.void),
          after: () => Effect.void
        }
        const claimed = yield* claim
        yield* Effect.exit(Effect.provideService(executeClaimed(claimed), StepObserver, cut))
        assert.isTrue(yield* (yield* OperationStore).requeueIfClaimedBy(claimed))
        return operation
      })
    const observedOf = ({ project }: Scene) =>
      Effect.flatMap(RuntimeStore, (store) =>
        Effect.map(store.runtime(project), (found) => Option.getOrThrow(found).observed)
      )

    live.effect("what an operation has come to behind a look at the node is not undone by it", () =>
      Effect.gen(function* () {
        const scene = yield* newProject
        const { newRecipe } = yield* carryOut(scene, requestOf(scene.project, "provision"))
        endByItself((yield* Scripted).guests, newRecipe!.sandbox, 1)
        yield* reconcileSandboxes
        const registry = yield* Registry
        const context = yield* Effect.context<Effect.Services<ReturnType<typeof carryOut>>>()
        const restart = carryOut(scene, requestOf(scene.project, "restart"))
        // The node is looked at, and the whole restart comes before what is made of it.
        const inventory = Effect.tap(registry.inventory, () =>
          restart.pipe(Effect.provideContext(context), Effect.orDie)
        )
        assert.strictEqual(
          yield* Effect.provideService(
            reconcileRuntimes(() => false),
            Registry,
            { ...registry, inventory }
          ),
          0
        )
        assert.strictEqual(yield* observedOf(scene), "running")
      })
    )

    live.effect("FC-06 a start that was taken back half way leaves no runtime that starts for ever", () =>
      Effect.gen(function* () {
        const stopped = yield* newProject
        yield* carryOut(stopped, requestOf(stopped.project, "provision"))
        yield* carryOut(stopped, requestOf(stopped.project, "stop"))
        const bare = yield* newProject
        for (const [scene, action, at, expected] of [
          [stopped, "start", "boot", "stopped"],
          [bare, "provision", "storage", "failed"]
        ] as const) {
          const { id } = yield* givenBackBefore(scene, action, at)
          yield* reconcileRuntimes(() => false)
          assert.strictEqual(yield* observedOf(scene), "starting", "it is queued, and may go on")
          yield* supersedeOperation(scene.caller, { id, project: scene.project })
          yield* reconcileRuntimes(() => false)
          assert.strictEqual(yield* observedOf(scene), expected)
        }
      })
    )
  })

  layer(fixture, { excludeTestServices: true, timeout: "60 seconds" })((live) => {
    live.effect("RG-DEL-09 the machine of a runtime is renewed before its life is over", () =>
      Effect.gen(function* () {
        const { operation } = yield* provisioned
        const registry = yield* Registry
        const { sandbox } = operation.newRecipe!
        const nowMillis = yield* Clock.currentTimeMillis
        yield* registry.update(sandbox, (kept) =>
          Result.succeed(new SandboxRecord({ ...kept, expiresAtMillis: nowMillis + 1_000 }))
        )
        yield* reconcileRuntimes(() => false)
        const { expiresAtMillis } = yield* registry.get(sandbox)
        assert.isAtLeast(expiresAtMillis, nowMillis + lifeMillis)
        yield* reconcileRuntimes(() => false)
        assert.strictEqual((yield* registry.get(sandbox)).expiresAtMillis, expiresAtMillis)
      })
    )
  })
})
