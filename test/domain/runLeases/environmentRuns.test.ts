/** One command in a lease of its own: what is told of it, who may ask for it, and what becomes of its lease. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { executionOutputBytesMax } from "../../../src/domain/Bounds.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import type { EnvironmentRuntime } from "../../../src/domain/runLeases/EnvironmentRuntime.ts"
import type { Caller } from "../../../src/domain/host/Accounts.ts"
import { ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import { makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"
import { type RunRequest, runInEnvironment } from "../../../src/domain/runLeases/environmentRuns.ts"
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

type Execute = EnvironmentRuntime["Service"]["execute"]

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
      const streaming: Execute = ({ logSink }) =>
        Effect.sync(() => {
          logSink?.({ stream: "stdout", text: "one " })
          return { ...result, stdout: "one two", stderr: "late" }
        })
      const told = yield* events(root, { environment: environment.id }).pipe(
        withRuntime({ builtIns: [fake.provider] }, "alive", { execute: streaming })
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
      const loud: Execute = ({ logSink }) =>
        Effect.sync(() => {
          for (let times = 0; times < 4; times += 1) logSink?.({ stream: "stdout", text: part })
          return { ...result, stdout: part.repeat(4) }
        })
      const told = yield* events(root, { environment: environment.id }).pipe(
        withRuntime({ builtIns: [fake.provider] }, "alive", { execute: loud })
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

  it.live(
    "SP-HTTP-04 who is no administrator has neither the machine nor its files, nor what is another's",
    () =>
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

  it.live.each([
    ["shell", { environmentAcquisitionPhase: "shell" }],
    ["private-command", undefined]
  ] as const)("RL-CREATE-07 how far a failed acquisition came is kept for people: %s", ([phase, kept]) =>
    Effect.gen(function* () {
      const { environment, root, tenant } = yield* scene
      const acquireRunLease: EnvironmentRuntime["Service"]["acquireRunLease"] = ({ run }) =>
        Effect.fail(
          new ProviderRpcError({
            code: -32002,
            message: "Provider creation cleanup required",
            data: {
              schema: "holdfast/environment-creation-cleanup/v1",
              cleanup: {
                providerLeaseId: `holdfast-create-${tenant}`,
                attemptId: tenant,
                tenantId: tenant,
                environmentId: environment.id,
                runId: run,
                accountFingerprint: "a".repeat(64),
                labels: { "holdfast-provider": "fake" }
              },
              acquisitionDiagnostic: { phase, elapsedMs: 5, budgetMs: 9 }
            }
          })
        )
      yield* Effect.flip(events(root, { environment: environment.id })).pipe(
        withRuntime({}, "alive", { acquireRunLease })
      )
      const [row] = yield* sql("select result_json from core.runs")
      const figures = { environmentAcquisitionElapsedMs: 5, environmentAcquisitionBudgetMs: 9 }
      assert.deepStrictEqual(
        row?.["result_json"],
        kept === undefined ? null : { execution: { ...kept, ...figures } }
      )
    }).pipe(Effect.provide(censuses), onClone)
  )
})
