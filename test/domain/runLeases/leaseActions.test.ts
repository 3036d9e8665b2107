/** What people do about one lease by hand, and what the row says of who did it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import {
  destroyByHand,
  explainLease,
  releaseByHand,
  retryByHand
} from "../../../src/domain/runLeases/leaseActions.ts"
import { providerFailure } from "../../../src/domain/runLeases/providerFailure.ts"
import { callerOf, withRuntime } from "./callers.ts"
import { newTenant, onClone, reuseFixture } from "./fixture.ts"
import { leaseRow, setLease } from "./rawRows.ts"
import { receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const scene = (...options: Parameters<typeof reuseFixture>) =>
  Effect.map(reuseFixture(...options), (made) => ({ ...made, root: callerOf(made.tenant) }))

const ending = (state: "destroyed" | "stopped") =>
  withRuntime({
    workers: scriptedWorkers({ call: (call) => Effect.sync(() => receiptOf(state)(call)) }).manager
  })

const codeOf = <A, R>(asked: Effect.Effect<A, Error, R>) =>
  Effect.map(Effect.flip(asked), (error) => String(Reflect.get(error, "code")))

describe("runLeases/leaseActions", () => {
  it.live("FC-22 a release by hand says by whose hand, and is refused once nobody holds the lease", () =>
    Effect.gen(function* () {
      const { lease, root } = yield* scene()
      const released = yield* releaseByHand(root, lease).pipe(ending("stopped"))
      assert.deepInclude(released, {
        status: "released",
        endedBy: `account:${root.account}`,
        failureReason: "released_by_hand"
      })
      const again = codeOf(releaseByHand(root, lease)).pipe(ending("stopped"))
      assert.strictEqual(yield* again, "environment_lease_not_active")
    }).pipe(onClone)
  )

  it.live("FC-22 a lease is destroyed by hand, and says by whose, with the proof in its story", () =>
    Effect.gen(function* () {
      const { lease, root } = yield* scene()
      const destroyed = yield* destroyByHand(root, lease).pipe(ending("destroyed"))
      assert.deepInclude(destroyed, {
        status: "expired",
        cleanupStatus: "success",
        endedBy: `account:${root.account}`,
        failureReason: "destroyed_by_hand"
      })
      const { steps } = yield* explainLease(root, lease)
      assert.include(steps.at(-1)?.text, "destroyed")
    }).pipe(onClone)
  )

  it.live("one whose environment is gone has no driver to ask, and is sent to the sweep", () =>
    Effect.gen(function* () {
      const { lease, root } = yield* scene()
      yield* setLease(lease, { environment_id: null, status: "pending_cleanup", cleanup_status: "failed" })
      const refused = codeOf(destroyByHand(root, lease)).pipe(ending("destroyed"))
      assert.strictEqual(yield* refused, "environment_lease_gone")
      assert.strictEqual((yield* retryByHand(root, lease)).status, "pending_cleanup")
    }).pipe(onClone)
  )

  it.live("FC-09 a retry makes due what is owed, and nothing else", () =>
    Effect.gen(function* () {
      const { lease, root } = yield* scene()
      assert.strictEqual(yield* codeOf(retryByHand(root, lease)), "environment_lease_not_owed")
      yield* setLease(lease, { status: "pending_cleanup", cleanup_status: "failed", cleanup_tries: 7 })
      yield* retryByHand(root, lease)
      const due = (yield* leaseRow(lease))["cleanup_due_at"]
      assert.instanceOf(due, Date)
    }).pipe(onClone)
  )

  it.live("SP-HTTP-04 nobody acts on the lease of another tenant", () =>
    Effect.gen(function* () {
      const { lease } = yield* scene()
      const stranger = callerOf(yield* newTenant)
      for (const act of [releaseByHand, destroyByHand, retryByHand, explainLease]) {
        const refused = yield* Effect.flip(act(stranger, lease) as ReturnType<typeof retryByHand>).pipe(
          ending("destroyed")
        )
        assert.strictEqual(refused._tag, "EnvironmentLeaseNotFound")
      }
      assert.strictEqual((yield* leaseRow(lease))["status"], "active")
    }).pipe(onClone)
  )
})

describe("runLeases/providerFailure", () => {
  it("FC-21 nothing of a provider's text is told, only what kind of failure it was", () => {
    const rpc = new ProviderRpcError({ code: -32002, message: "canary", data: { token: "canary" } })
    for (const [error, why] of [
      [rpc, "error -32002"],
      [new Error("canary"), "its own error"],
      ["canary", "its own error"]
    ] as const) {
      const told = providerFailure(error)
      assert.strictEqual(told.why, why)
      assert.notInclude(JSON.stringify([told, told.message]), "canary")
    }
  })
})
