/** One command in a lease of its own: what is told of it, who may ask for it, and what becomes of its lease. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { executionOutputBytesMax } from "../../../src/domain/Bounds.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import type { EnvironmentDriver } from "../../../src/domain/runLeases/EnvironmentDriver.ts"
import type { Caller } from "../../../src/domain/host/Accounts.ts"
import { makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"
import { type RunRequest, runInEnvironment } from "../../../src/domain/runLeases/environmentRuns.ts"
import { sandboxDriver } from "../../../src/domain/runLeases/sandboxDriver.ts"
import { censuses, people, withRuntime } from "./callers.ts"
import { newEnvironment, onClone } from "./fixture.ts"
import { leaseRowsOf, sql } from "./rawRows.ts"

const argv = ["echo", "hi"] as const

const events = (caller: Caller, request: Partial<RunRequest> & { readonly environment: string }) =>
  Stream.runCollect(runInEnvironment(caller, { argv, variables: {}, ...request })).pipe(
    Effect.map((all) => [...all])
  )

const runs = sql("select status, error_code, invocation_source from core.runs order by created_at")

const scene = Effect.gen(function* () {
  const fake = makeFakeProvider()
  return { fake, ...(yield* people), environment: yield* newEnvironment("sandbox", { provider: "fake" }) }
})

/** The driver `sandbox` over the fake provider, whose commands are carried out otherwise. */
const driversWith = (execute: NonNullable<EnvironmentDriver["execute"]>, { provider }: FakeProvider) =>
  Effect.map(driverIn({ builtIns: [provider] }), (driver) => [{ ...driver, execute }])

const result = { exitCode: 0, signal: null, timedOut: false, stdout: "", stderr: "" }

describe("runLeases/environmentRuns", () => {
  it.live("a run is told from its start to its end, and its resource is gone", () =>
    Effect.gen(function* () {
      const { environment, fake, root } = yield* scene
      fake.always("execute", () =>
        Effect.succeed({ ...result, exitCode: 4, stdout: "out\n", stderr: "err\n" })
      )
      const told = yield* events(root, { environment: environment.name }).pipe(
        withRuntime({ builtIns: [fake.provider] })
      )
      assert.deepStrictEqual(
        told.map((event) => (event._tag === "Output" ? [event.stream, event.text] : event._tag)),
        ["Started", ["stdout", "out\n"], ["stderr", "err\n"], "Released", "Exited"]
      )
      assert.deepStrictEqual(fake.sandboxes(), [])
      const [run] = yield* runs
      assert.deepInclude(run, { status: "failed", error_code: null })
      assert.match(String(run?.["invocation_source"]), /^daemon:/)
      const [lease] = yield* leaseRowsOf(environment.id)
      assert.deepInclude(lease, { status: "expired", cleanup_status: "success", ended_by: "run" })
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("what a provider has streamed is not told twice, and what it has not is told at the end", () =>
    Effect.gen(function* () {
      const { environment, fake, root } = yield* scene
      const streaming: EnvironmentDriver["execute"] = ({ logSink }) =>
        Effect.sync(() => {
          logSink?.({ stream: "stdout", text: "one " })
          return { ...result, stdout: "one two", stderr: "late" }
        })
      const drivers = yield* driversWith(streaming, fake)
      const told = yield* events(root, { environment: environment.id }).pipe(
        withRuntime({ builtIns: [fake.provider], drivers })
      )
      assert.deepStrictEqual(
        told.flatMap((event) => (event._tag === "Output" ? [event.text] : [])),
        ["one ", "two", "late"]
      )
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("output beyond its bound is cut and says so once", () =>
    Effect.gen(function* () {
      const { environment, fake, root } = yield* scene
      const part = "x".repeat(executionOutputBytesMax / 2)
      const loud: EnvironmentDriver["execute"] = ({ logSink }) =>
        Effect.sync(() => {
          for (let times = 0; times < 4; times += 1) logSink?.({ stream: "stdout", text: part })
          return { ...result, stdout: part.repeat(4) }
        })
      const drivers = yield* driversWith(loud, fake)
      const told = yield* events(root, { environment: environment.id }).pipe(
        withRuntime({ builtIns: [fake.provider], drivers })
      )
      assert.deepStrictEqual(
        told.map(({ _tag }) => _tag),
        ["Started", "Output", "Output", "Truncated", "Released", "Exited"]
      )
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("a provider that fails leaves nothing behind, and the run says that it failed", () =>
    Effect.gen(function* () {
      const { environment, fake, root } = yield* scene
      const error = new Error("no")
      fake.script("execute", () => Effect.fail(error))
      const seen = yield* Effect.flip(events(root, { environment: environment.name })).pipe(
        withRuntime({ builtIns: [fake.provider] })
      )
      assert.strictEqual(seen, error)
      assert.deepStrictEqual(fake.sandboxes(), [])
      assert.deepInclude((yield* runs)[0], { status: "failed", error_code: "run_failed" })
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("an end that the provider does not carry out stays owed, and the command's result is told", () =>
    Effect.gen(function* () {
      const { environment, fake, root } = yield* scene
      fake.always("destroy", () => Effect.fail(new Error("not now")))
      const told = yield* events(root, { environment: environment.name }).pipe(
        withRuntime({ builtIns: [fake.provider] })
      )
      const released = told.find((event) => event._tag === "Released")
      assert.strictEqual(released?.lease.status, "pending_cleanup")
      assert.strictEqual(told.at(-1)?._tag, "Exited")
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("SP-HTTP-04 who is no administrator has neither the machine nor its files, nor what is another's", () =>
    Effect.gen(function* () {
      const { environment, fake, somebody, tenant } = yield* scene
      const machine = yield* newEnvironment("local")
      const codeOf = (request: Parameters<typeof events>[1]) =>
        Effect.map(Effect.flip(events(somebody, request)), (error) => Reflect.get(error, "code"))
      const inDaemon = withRuntime({ builtIns: [fake.provider] })
      const asked = inDaemon(
        Effect.all([
          codeOf({ environment: machine.id }),
          codeOf({ environment: environment.id, workspacePath: "/etc" }),
          codeOf({ environment: environment.id }),
          codeOf({ environment: "nowhere" })
        ])
      )
      assert.deepStrictEqual<unknown>(yield* asked, [
        "administrator_needed",
        "administrator_needed",
        "environment_tenant_mismatch",
        "environment_not_found"
      ])
      assert.deepStrictEqual(fake.sandboxes(), [])
      yield* EnvironmentStore.use((store) =>
        store.bindManagedResource({
          tenant,
          environment: environment.id,
          resourceKey: "managed-sandbox",
          stockVersion: 1,
          stockHash: "0"
        })
      )
      const told = yield* inDaemon(events(somebody, { environment: environment.id }))
      assert.strictEqual(told.at(-1)?._tag, "Exited")
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("a disabled environment takes no new run, and nothing is begun", () =>
    Effect.gen(function* () {
      const { environment, fake, root } = yield* scene
      yield* EnvironmentStore.use((store) => store.update(environment.id, { status: "disabled" }))
      const error = yield* Effect.flip(events(root, { environment: environment.id })).pipe(
        withRuntime({ builtIns: [fake.provider] })
      )
      assert.strictEqual(Reflect.get(error, "code"), "environment_disabled")
      assert.deepStrictEqual([yield* runs, fake.calls], [[], []])
    }).pipe(Effect.provide(censuses), onClone)
  )
})
