/** Runs of daemons that are gone: ended with a reason, and nobody else's. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import type { Liveness } from "../../../src/domain/Processes.ts"
import { runInEnvironment } from "../../../src/domain/runLeases/environmentRuns.ts"
import { endInterruptedRuns } from "../../../src/domain/runLeases/interruptedRuns.ts"
import { makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"
import { waitFor } from "../../support/waiting.ts"
import { censuses, people, withRuntime } from "./callers.ts"
import { newAgent, newEnvironment, newRun, onClone } from "./fixture.ts"
import { leaseRowsOf, setLease, sql, value } from "./rawRows.ts"

/** A run whose daemon is gone: its lease is active and its resource is there. */
const interrupted = Effect.gen(function* () {
  const { root, tenant } = yield* people
  const environment = yield* newEnvironment("sandbox", { provider: "fake" })
  const fake = makeFakeProvider()
  fake.script("execute", () => Effect.never)
  const parts = { builtIns: [fake.provider] }
  const run = yield* Stream.runDrain(
    runInEnvironment(root, { environment: environment.id, argv: ["sleep"], variables: {} })
  ).pipe(withRuntime(parts), Effect.forkScoped)
  yield* waitFor({
    fact: "the command runs",
    look: Effect.sync(() => fake.calls.some(({ verb }) => verb === "execute")),
    holds: (runs) => runs
  })
  // What the process wrote last is what stays; its end writes nothing.
  const rows = yield* leaseRowsOf(environment.id)
  yield* Fiber.interrupt(run)
  yield* setLease(rows[0]?.["id"] as never, {
    status: "active",
    cleanup_status: null,
    failure_reason: null,
    metadata: rows[0]?.["metadata"] as never
  })
  yield* sql("update core.runs set status = 'running', finished_at = null, error_code = null")
  return { environment, fake, parts, tenant }
})

describe("runLeases/interruptedRuns", () => {
  it.live("FC-02 FC-22 the run of a dead process is failed, and its lease ended under that reason", () =>
    Effect.gen(function* () {
      const { environment, parts } = yield* interrupted
      const swept = yield* endInterruptedRuns().pipe(withRuntime(parts, "dead"))
      assert.deepStrictEqual(swept, { attempted: 1, done: 1, failed: 0 })
      const [lease] = yield* leaseRowsOf(environment.id)
      assert.deepInclude(lease, {
        status: "expired",
        cleanup_status: "success",
        failure_reason: "daemon_died",
        ended_by: "recovery"
      })
      assert.strictEqual(yield* value("select error_code from core.runs"), "daemon_died")
      const again = yield* endInterruptedRuns().pipe(withRuntime(parts, "dead"))
      assert.strictEqual(again.attempted, 0)
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live.each(["alive", "elsewhere"] as const)("a run of a process that is %s is left alone", (liveness) =>
    Effect.gen(function* () {
      const { environment, parts } = yield* interrupted
      const swept = yield* endInterruptedRuns().pipe(withRuntime(parts, liveness satisfies Liveness))
      assert.strictEqual(swept.attempted, 0)
      assert.strictEqual((yield* leaseRowsOf(environment.id))[0]?.["status"], "active")
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("a live run that no daemon began is nobody's to end here", () =>
    Effect.gen(function* () {
      const { tenant } = yield* people
      const { id } = yield* newAgent(tenant)
      yield* newRun(tenant, id)
      const swept = yield* endInterruptedRuns().pipe(withRuntime({}, "dead"))
      assert.strictEqual(swept.attempted, 0)
      assert.strictEqual(yield* value("select status from core.runs"), "running")
    }).pipe(Effect.provide(censuses), onClone)
  )

  it.live("a resource that cannot be ended yet is owed under the same reason, and counts as failed", () =>
    Effect.gen(function* () {
      const { environment, fake, parts } = yield* interrupted
      fake.always("destroy", () => Effect.fail(new Error("not now")))
      const swept = yield* endInterruptedRuns().pipe(withRuntime(parts, "dead"))
      assert.deepStrictEqual(swept, { attempted: 1, done: 0, failed: 1 })
      assert.deepInclude((yield* leaseRowsOf(environment.id))[0], {
        status: "pending_cleanup",
        failure_reason: "daemon_died"
      })
    }).pipe(Effect.provide(censuses), onClone)
  )
})
