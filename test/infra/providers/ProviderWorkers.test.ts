/** Real worker processes: the two plugins that ship as examples, and small ones that misbehave. */
import { assert, layer } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { ProviderPluginId } from "../../../src/domain/Identity.ts"
import type { ProviderWorkerManager } from "../../../src/domain/providers/ProviderWorkers.ts"
import { ProviderWorkers } from "../../../src/domain/providers/ProviderWorkers.ts"
import { withRunParent } from "../../../src/domain/runLeases/RunParent.ts"
import { layer as workers, WorkerKeeping } from "../../../src/infra/providers/ProviderWorkers.ts"
import type { WorkerFiles } from "../../../src/infra/providers/workerProcess.ts"
import { waitFor } from "../../support/waiting.ts"

const examples = Path.resolve(import.meta.dirname, "../../../examples/provider-plugins")
const pluginA = ProviderPluginId.make("00000000-0000-4000-8000-0000000000a1")
const pluginB = ProviderPluginId.make("00000000-0000-4000-8000-0000000000b2")

const example = (name: string): WorkerFiles => ({
  pluginKey: `example.${name}`,
  folder: Path.join(examples, name),
  worker: Path.join(examples, name, "worker.mjs")
})

const folder = Effect.acquireRelease(
  Effect.sync(() => Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-provider-"))),
  (path) => Effect.sync(() => Files.rmSync(path, { recursive: true, force: true }))
)

/** A worker of a few lines. */
const written = (body: string) =>
  Effect.map(folder, (path): WorkerFiles => {
    const worker = Path.join(path, "worker.mjs")
    Files.writeFileSync(
      worker,
      `import { serve } from ${JSON.stringify(Path.join(examples, "serve.mjs"))}\n${body}`
    )
    return { pluginKey: "written", folder: path, worker }
  })

const untilRunning = (manager: ProviderWorkerManager, plugin = pluginA) =>
  waitFor({
    fact: "the worker runs",
    look: Effect.sync(() => manager.isRunning(plugin)),
    holds: (runs) => runs,
    deadlineMillis: 20_000
  })

const running = Effect.fnUntraced(function* (files: WorkerFiles, plugin = pluginA) {
  const manager = (yield* ProviderWorkers)!
  const { keep } = yield* WorkerKeeping
  yield* keep([{ plugin, files }])
  yield* Effect.addFinalizer(() => keep([]))
  yield* untilRunning(manager, plugin)
  return manager
})

const scripted = (faults: Record<string, ReadonlyArray<object>> = {}) =>
  Effect.map(folder, (stateDirectory) => {
    Files.writeFileSync(Path.join(stateDirectory, "faults.json"), JSON.stringify(faults))
    return { stateDirectory }
  })

const failureOf = <A, E>(exit: Exit.Exit<A, E>): unknown =>
  Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined

const intent = { name: "holdfast-1", installation: "here", generation: 1 }
const isGone = (pid: number): boolean => !Files.existsSync(`/proc/${pid}`)

const impatient = { installation: "here", pingMillis: 100, pingAnswerMillis: 400 }

layer(workers(impatient), { excludeTestServices: true, timeout: 60_000 })("ProviderWorkers", (it) => {
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

  it.effect(
    "a worker gets nothing of the daemon's environment, and the run's traceparent beside its parameters",
    () =>
      Effect.gen(function* () {
        process.env["HOLDFAST_TEST_CANARY"] = "canary-of-the-daemon"
        yield* Effect.addFinalizer(() => Effect.sync(() => delete process.env["HOLDFAST_TEST_CANARY"]))
        const files = yield* written(
          "serve({ methods: { tell: (params, { traceparent }) => ({ params, traceparent, names: Object.keys(process.env) }) } })"
        )
        const manager = yield* running(files)
        const parent = {
          traceId: "0af7651916cd43dd8448eb211c80319c",
          spanId: "b7ad6b7169203331",
          traceFlags: 1
        }
        const answer = yield* withRunParent(parent)(manager.call(pluginA, "tell", { a: 1 }, 30_000))
        assert.deepInclude(answer, {
          params: { a: 1 },
          traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        })
        assert.notInclude(JSON.stringify(answer), "HOLDFAST_TEST_CANARY")
      })
  )

  it.effect(
    "a worker that reads no end of its input and ignores signals is gone with its children when it is no longer kept",
    () =>
      Effect.gen(function* () {
        const files = yield* written(
          `import { spawn } from "node:child_process"
         process.on("SIGTERM", () => undefined)
         const child = spawn("sleep", ["1000"], { stdio: "ignore" })
         process.exit = () => undefined
         setInterval(() => undefined, 1000)
         serve({ methods: { pids: () => [process.pid, child.pid] } })`
        )
        const manager = yield* running(files)
        const pids = (yield* manager.call(pluginA, "pids", {}, 30_000)) as ReadonlyArray<number>
        yield* (yield* WorkerKeeping).keep([])
        assert.isFalse(manager.isRunning(pluginA))
        yield* waitFor({
          fact: "nothing of it is left",
          look: Effect.sync(() => pids.every(isGone)),
          holds: (gone) => gone,
          deadlineMillis: 5_000
        })
      })
  )
})
