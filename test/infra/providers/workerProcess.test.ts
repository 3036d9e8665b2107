/** What one worker process gets from its daemon, and how it ends. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../../src/domain/Bounds.ts"
import { ProviderCallFailed } from "../../../src/domain/providers/ProviderWorkers.ts"
import { withRunParent } from "../../../src/domain/runLeases/RunParent.ts"
import { WorkerKeeping } from "../../../src/infra/providers/ProviderWorkers.ts"
import { isGone } from "../../support/processes.ts"
import { waitFor } from "../../support/waiting.ts"
import { impatientWorkers, patientWorkers, pluginA, running, written } from "./workerHarness.ts"

layer(impatientWorkers, { excludeTestServices: true, timeout: 60_000 })("providers/workerProcess", (it) => {
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

  it.effect("a worker that is no longer kept is told so before its input ends", () =>
    Effect.gen(function* () {
      const files = yield* written(
        `import { appendFileSync } from "node:fs"
         const note = (text) => appendFileSync(new URL("./heard", import.meta.url), text)
         process.stdin.setEncoding("utf8").on("data", (text) => {
           for (const line of text.split("\\n").filter(Boolean)) {
             const { id, method } = JSON.parse(line)
             if (method === "shutdown") note("shutdown ")
             const result = { protocolVersion: 1, supportedMethods: [] }
             if (id !== undefined) process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n")
           }
         }).on("end", () => { note("end"); process.exit(0) })`
      )
      yield* running(files)
      yield* (yield* WorkerKeeping).keep([])
      assert.strictEqual(Files.readFileSync(Path.join(files.folder, "heard"), "utf8"), "shutdown end")
    })
  )

  it.effect("RL-TRACE-01 the span that a worker made for a call is told by the caller's span", () =>
    Effect.gen(function* () {
      const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
      const files = yield* written(
        `const answer = (message) => process.stdout.write(JSON.stringify(
           { jsonrpc: "2.0", ...message, meta: { traceparent: "${traceparent}" } }) + "\\n")
         serve({ methods: { tell: () => ({ told: true }) }, answer })`
      )
      const manager = yield* running(files)
      const asking = Effect.zip(manager.call(pluginA, "tell", {}, 30_000), Effect.currentSpan)
      const [answer, { attributes }] = yield* Effect.withSpan(asking, "asking")
      assert.deepStrictEqual(answer, { told: true })
      assert.strictEqual(attributes.get("provider.traceparent"), traceparent)
    })
  )

  it.effect("calls that come together count against what a worker may have unread", () =>
    Effect.gen(function* () {
      const manager = yield* running(
        yield* written("serve({ methods: { size: ({ text }) => text.length } })")
      )
      const length = Math.floor(Bounds.providerMessageBytesMax / 2)
      const call = manager.call(pluginA, "size", { text: "x".repeat(length) }, 30_000)
      // A message is longer than its text: with the last of these, more than the bound is unread.
      const fitting = Math.ceil(Bounds.providerOutboxBytesMax / length)
      const answers = yield* Effect.all(
        Array.from({ length: fitting + 2 }, () => Effect.result(call)),
        { concurrency: "unbounded" }
      )
      const isBusy = ({ failure }: { readonly failure: Error }) =>
        failure instanceof ProviderCallFailed && failure.why === "busy"
      assert.deepStrictEqual(
        answers.map((answer) => (Result.isSuccess(answer) ? answer.success : isBusy(answer))),
        [...Array.from({ length: fitting }, () => length), true, true]
      )
    }).pipe(Effect.provide(patientWorkers))
  )
})
