/** No span, log, row or typed error tells what a provider said. */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Tracer from "effect/Tracer"
import { ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import { quietSpan } from "../../../src/domain/runLeases/quietSpan.ts"
import { acquisitionOf, leasedPlugin } from "./acquisitions.ts"
import { onClone } from "./fixture.ts"
import { pluginScene } from "./pluginScenes.ts"
import { sql } from "./rawRows.ts"
import { capturedLog } from "./runtimes.ts"

const canary = "canary-of-a-provider"

/** A tracer that keeps its spans, and everything that they tell. */
const capturedSpans = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  const textOf = (span: Tracer.NativeSpan): string => {
    const { status } = span
    const ended =
      status._tag === "Ended" && Exit.isFailure(status.exit) ? Cause.pretty(status.exit.cause) : status._tag
    return JSON.stringify([span.name, [...span.attributes], span.events, ended])
  }
  return { spans, text: () => spans.map(textOf).join("\n"), capture: Effect.withTracer(tracer) }
}

const failing = {
  environmentAcquireLease: new ProviderRpcError({ code: -32_000, message: canary, data: { text: canary } }),
  environmentExecute: new Error(canary),
  environmentRealizeWorkspace: new Error(canary),
  environmentResumeLease: new Error(canary),
  environmentReleaseLease: new Error(canary),
  environmentDestroyLease: new Error(canary)
}

describe("quietSpan", () => {
  it.effect(
    "FC-21 a span over a failure ends well and says that it failed; the caller gets the very error",
    () =>
      Effect.gen(function* () {
        const { capture, spans, text } = capturedSpans()
        const error = new Error(canary)
        const fields = { tenant: "t", environment: "e", lease: "l" }
        const failed = Effect.fail(error).pipe(quietSpan("verb", fields))
        assert.strictEqual(yield* Effect.flip(failed).pipe(capture), error)
        assert.strictEqual(yield* Effect.succeed(1).pipe(quietSpan("verb", fields), capture), 1)
        assert.deepStrictEqual(
          spans.map(({ attributes }) => Object.fromEntries(attributes)),
          ["failed", "done"].map((outcome) => ({ ...fields, outcome }))
        )
        assert.notInclude(text(), canary)
      })
  )

  it.live("FC-21 whatever a provider fails with, on either driver, is told to the caller alone", () =>
    Effect.gen(function* () {
      const { capture, spans, text } = capturedSpans()
      const log = capturedLog()
      const sandbox = yield* leasedPlugin()
      const plugin = yield* pluginScene()
      const command = { command: "true", args: [], cwd: "/", env: {} }
      const workspace = { localPath: "/tmp", mode: "ephemeral" }
      const told: Array<string> = []
      for (const scene of [
        { ...sandbox, asked: acquisitionOf(sandbox) },
        { ...plugin, agent: undefined }
      ]) {
        const { asked, runtime, workers } = scene
        const { lease } = yield* runtime.acquireRunLease(asked).pipe(capture, log.capture)
        workers.script.call = ({ method }) => Effect.fail(failing[method as keyof typeof failing])
        const place = { environment: asked.environment, lease }
        const onError = (_lease: unknown, error: Error) => Effect.sync(() => void told.push(error.message))
        const attempts: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
          runtime.execute({ ...place, ...command }),
          runtime.realizeWorkspace({ ...place, workspace }),
          runtime.resumeRunLease(place),
          runtime.acquireRunLease({ ...asked, task: null, executionWorkspace: null }),
          runtime.releaseRunLeases(asked.run, { onError }),
          runtime.destroyRunLease(place)
        ]
        for (const attempt of attempts) yield* Effect.exit(attempt.pipe(capture, log.capture))
      }
      assert.deepStrictEqual(told, [canary])
      assert.isAbove(spans.length, 12)
      for (const name of ["acquire", "create", "execute", "realize", "resume", "destroy"]) {
        assert.include(text(), `"runLeases.${name}"`)
      }
      assert.notInclude(text(), canary)
      assert.notInclude(log.lines.map((line) => line.text).join(), canary)
      assert.notInclude(JSON.stringify(yield* sql("select * from environment_leases")), canary)
    }).pipe(onClone)
  )
})
