/** Real worker processes: the two plugins that ship as examples, and small ones that misbehave. */
import { assert, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Files from "node:fs"
import * as Path from "node:path"
import { ProviderWorkers } from "../../../src/domain/providers/ProviderWorkers.ts"
import { WorkerKeeping } from "../../../src/infra/providers/ProviderWorkers.ts"
import { failureOf } from "../../support/failures.ts"
import { isGone } from "../../support/processes.ts"
import { waitFor } from "../../support/waiting.ts"
import {
  example,
  impatientWorkers,
  intent,
  pluginA,
  pluginB,
  running,
  scripted,
  untilRunning,
  written
} from "./workerHarness.ts"

layer(impatientWorkers, { excludeTestServices: true, timeout: 60_000 })("ProviderWorkers", (it) => {
  it.effect("a real plugin acquires, executes, stops, resumes and destroys a bubblewrap guest", () =>
    Effect.gen(function* () {
      const config = yield* scripted()
      const manager = yield* running(example("bubblewrap"))
      assert.isTrue(manager.getWorker?.(pluginA)?.supportedMethods.includes("environmentDestroyLease"))
      const call = (method: string, params: object) =>
        manager.call(
          pluginA,
          method,
          { driverKey: "bubblewrap", config, providerLeaseId: intent.name, ...params },
          30_000
        )
      assert.deepInclude(yield* call("environmentAcquireLease", { intent }), {
        providerLeaseId: intent.name
      })
      const said: Array<string> = []
      const answer = yield* manager.call(
        pluginA,
        "environmentExecute",
        {
          config,
          providerLeaseId: intent.name,
          command: "sh",
          args: ["-c", 'cat >kept; echo "$NAME $(ls /workspace)"; hostname >/dev/null; exit 3'],
          env: { NAME: "value" },
          stdin: "text"
        },
        30_000,
        ({ text }) => said.push(text)
      )
      assert.deepInclude(answer, { exitCode: 3, stdout: "value kept\n", timedOut: false })
      assert.strictEqual(said.join(""), "value kept\n")
      assert.deepStrictEqual(yield* call("environmentListLeases", { installation: "here" }), {
        leases: [{ providerLeaseId: intent.name, intentName: intent.name }]
      })
      assert.deepStrictEqual(yield* call("environmentListLeases", { installation: "elsewhere" }), {
        leases: []
      })
      assert.deepStrictEqual(yield* call("environmentStopLease", { cancelActiveWork: true }), {
        providerLeaseId: intent.name,
        state: "stopped"
      })
      assert.deepInclude(yield* call("environmentResumeLease", {}), { providerLeaseId: intent.name })
      yield* call("environmentDestroyLease", {})
      assert.deepInclude(yield* call("environmentResumeLease", {}), { providerLeaseId: null })
      assert.deepStrictEqual(Files.readdirSync(Path.join(config.stateDirectory, "leases")), [])
    })
  )

  it.effect("FC-02 what a worker created before it died without an answer is found by its name", () =>
    Effect.gen(function* () {
      const config = yield* scripted({ environmentAcquireLease: [{ fault: "crash" }] })
      const manager = yield* running(example("scripted"))
      const ask = manager.call(pluginA, "environmentAcquireLease", { config, intent }, 30_000)
      assert.deepInclude(failureOf(yield* Effect.exit(ask)), { _tag: "ProviderCallFailed", why: "crashed" })
      yield* untilRunning(manager)
      assert.deepStrictEqual(
        yield* manager.call(pluginA, "environmentListLeases", { config, installation: "here" }, 30_000),
        { leases: [{ providerLeaseId: intent.name, intentName: intent.name }] }
      )
      // FC-04: the same create again is the same resource.
      assert.deepInclude(yield* ask, { providerLeaseId: intent.name })
    })
  )

  it.effect("a lost answer ends with its budget, and the other calls of the worker go on", () =>
    Effect.gen(function* () {
      const config = yield* scripted({ environmentDestroyLease: [{ fault: "lost" }] })
      const manager = yield* running(example("scripted"))
      const lost = manager.call(pluginA, "environmentDestroyLease", { config, providerLeaseId: "x" }, 200)
      const [first, second] = yield* Effect.all(
        [
          Effect.exit(lost),
          manager.call(pluginA, "environmentListLeases", { config, installation: "here" }, 30_000)
        ],
        { concurrency: 2 }
      )
      assert.deepInclude(failureOf(first), { _tag: "ProviderCallFailed", why: "timeout" })
      assert.deepStrictEqual(second, { leases: [] })
    })
  )

  it.effect(
    "an error of the worker's is told with its code and data; an answer that comes twice is one answer",
    () =>
      Effect.gen(function* () {
        const config = yield* scripted({
          environmentDestroyLease: [{ fault: "status", status: 404 }, { fault: "duplicate" }]
        })
        const manager = yield* running(example("scripted"))
        const destroy = manager.call(
          pluginA,
          "environmentDestroyLease",
          { config, providerLeaseId: "x" },
          30_000
        )
        assert.deepInclude(failureOf(yield* Effect.exit(destroy)), {
          _tag: "ProviderRpcError",
          code: -32000,
          data: { schema: "holdfast/provider-fault/v1", status: 404, providerLeaseId: "x" }
        })
        const done = { providerLeaseId: "x", state: "destroyed" }
        assert.deepStrictEqual(yield* destroy, done)
        assert.deepStrictEqual(yield* destroy, done)
      })
  )

  it.effect.each([
    ["garbage", "malformed"],
    ["oversized", "oversized"]
  ])(
    "a worker that breaks the protocol (%s) is ended, its callers are told, and a new one takes its place",
    ([fault, why]) =>
      Effect.gen(function* () {
        const config = yield* scripted({ environmentDestroyLease: [{ fault: fault! }] })
        const manager = yield* running(example("scripted"))
        const keeping = yield* WorkerKeeping
        const pid = (yield* keeping.standings)[0]!.pid!
        const destroy = manager.call(
          pluginA,
          "environmentDestroyLease",
          { config, providerLeaseId: "x" },
          30_000
        )
        assert.deepInclude(failureOf(yield* Effect.exit(destroy)), { _tag: "ProviderCallFailed", why })
        yield* waitFor({
          fact: "another process runs",
          look: keeping.standings,
          holds: ([standing]) => standing?.pid != null && standing.pid !== pid,
          deadlineMillis: 20_000
        })
        assert.isTrue(isGone(pid))
        assert.deepInclude(yield* destroy, { state: "destroyed" })
      })
  )

  it.effect(
    "a worker that hangs is killed when it does not answer for the life sign, and its callers are told",
    () =>
      Effect.gen(function* () {
        const config = yield* scripted({ environmentDestroyLease: [{ fault: "hang" }] })
        const manager = yield* running(example("scripted"))
        const destroy = manager.call(
          pluginA,
          "environmentDestroyLease",
          { config, providerLeaseId: "x" },
          60_000
        )
        assert.deepInclude(failureOf(yield* Effect.exit(destroy)), { why: "crashed" })
        yield* untilRunning(manager)
        assert.deepInclude(yield* destroy, { state: "destroyed" })
      })
  )

  it.effect("one plugin that cannot start does not hold another up; both are told apart", () =>
    Effect.gen(function* () {
      const keeping = yield* WorkerKeeping
      const manager = (yield* ProviderWorkers)!
      const bad = yield* written("process.exit(3)")
      yield* keeping.keep([
        { plugin: pluginA, files: bad },
        { plugin: pluginB, files: example("scripted") }
      ])
      yield* Effect.addFinalizer(() => keeping.keep([]))
      yield* untilRunning(manager, pluginB)
      assert.isFalse(manager.isRunning(pluginA))
      assert.deepInclude(failureOf(yield* Effect.exit(manager.call(pluginA, "m", {}))), {
        why: "not_running"
      })
      yield* waitFor({
        fact: "the bad one was started again",
        look: keeping.standings,
        holds: (all) =>
          all.some(({ plugin, starts, trouble }) => plugin === pluginA && starts > 1 && trouble !== null),
        deadlineMillis: 20_000
      })
    })
  )

  it.effect("a call that is interrupted is cancelled at the worker", () =>
    Effect.gen(function* () {
      const files = yield* written(
        `import { writeFileSync } from "node:fs"
         serve({ methods: { wait: (_, { log, signal }) => new Promise(() => {
           signal.addEventListener("abort", () => writeFileSync("cancelled", ""))
           log("stdout", "waiting")
         }) } })`
      )
      const manager = yield* running(files)
      const waits = yield* Deferred.make<void>()
      const call = yield* Effect.forkChild(
        manager.call(pluginA, "wait", {}, 30_000, () => Deferred.doneUnsafe(waits, Effect.void))
      )
      yield* Deferred.await(waits)
      yield* Fiber.interrupt(call)
      yield* waitFor({
        fact: "the worker was told",
        look: Effect.sync(() => Files.existsSync(Path.join(files.folder, "cancelled"))),
        holds: (told) => told,
        deadlineMillis: 20_000
      })
    })
  )
})
