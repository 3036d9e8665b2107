import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import type { BuiltInProvider } from "../../../src/domain/providers/BuiltInProviders.ts"
import { ProviderCallFailed, ProviderRpcError } from "../../../src/domain/providers/ProviderWorkers.ts"
import { attemptTeardown } from "../../../src/domain/runLeases/teardownAttempt.ts"
import { inDaemon, leaseNow, sweepIn } from "./daemons.ts"
import { newEnvironment, newTenant, onClone, reusableLeaseId, reuseFixture } from "./fixture.ts"
import { newLease } from "./rawRows.ts"
import { lifecycleMethods, receiptOf, scriptedWorkers } from "./scriptedWorkers.ts"

const pending = {
  status: "pending_cleanup",
  cleanup_status: "failed",
  failure_reason: "release_cleanup_failed"
}
const listMethod = "environmentListLeases"

/** A fault of the provider's own API, about our resource unless told. */
const fault = (status: number, providerLeaseId: string | null = reusableLeaseId) =>
  new ProviderRpcError({
    code: -32_010,
    message: "canary of the provider",
    data: {
      schema: "holdfast/provider-fault/v1",
      status,
      ...(providerLeaseId === null ? {} : { providerLeaseId })
    }
  })

interface Row {
  readonly reply: unknown
  /** Provider lease ids of the listing; an error where it fails; undefined where the provider keeps none. */
  readonly listed?: ReadonlyArray<string> | Error
  readonly tries?: number
  readonly ends: boolean
  readonly looksUp: boolean
}

const sweepOver = Effect.fnUntraced(function* ({ listed, reply, tries = 0 }: Row) {
  const scene = yield* reuseFixture({
    entry: { supportsIntents: listed === undefined ? undefined : true },
    lease: { ...pending, cleanup_tries: tries }
  })
  const workers = scriptedWorkers({
    methods: () => [...lifecycleMethods, listMethod],
    call: ({ method }) => {
      const answer =
        method === listMethod && !(listed instanceof Error)
          ? { leases: listed?.map((providerLeaseId) => ({ providerLeaseId, intentName: "intent" })) }
          : method === listMethod
            ? listed
            : reply
      return answer instanceof Error ? Effect.fail(answer) : Effect.succeed(answer)
    }
  })
  const counts = yield* sweepIn({ workers: workers.manager })
  return { counts, workers, lease: yield* leaseNow(scene.lease) }
})

const others = ["another-lease"]
const receipt = { providerLeaseId: reusableLeaseId, state: "destroyed" }
const timeout = new ProviderCallFailed({ method: "environmentDestroyLease", why: "timeout" })
const reset = new ProviderCallFailed({ method: "environmentDestroyLease", why: "crashed" })

const table: Readonly<Record<string, Row>> = {
  "FC-24 ok": { reply: undefined, listed: others, ends: true, looksUp: true },
  "FC-24 ok with a receipt": { reply: receipt, listed: others, ends: true, looksUp: true },
  "FC-24 404 of our id": { reply: fault(404), listed: others, ends: true, looksUp: true },
  "FC-24 401": { reply: fault(401), listed: others, ends: false, looksUp: false },
  "FC-24 403": { reply: fault(403), listed: others, ends: false, looksUp: false },
  "FC-24 408": { reply: fault(408), listed: others, ends: false, looksUp: false },
  "FC-24 429": { reply: fault(429), listed: others, ends: false, looksUp: false },
  "FC-24 500": { reply: fault(500), listed: others, ends: false, looksUp: false },
  "FC-24 reset": { reply: reset, listed: others, ends: false, looksUp: false },
  "FC-24 timeout": { reply: timeout, listed: others, ends: false, looksUp: false },
  "FC-07 404 that names no resource": {
    reply: fault(404, null),
    listed: others,
    ends: false,
    looksUp: false
  },
  "FC-07 404 of another id": { reply: fault(404, "other"), listed: others, ends: false, looksUp: false },
  "FC-07 404 of our id, still listed": {
    reply: fault(404),
    listed: [reusableLeaseId],
    ends: false,
    looksUp: true
  },
  "FC-07 404 of our id, the listing fails": {
    reply: fault(404),
    listed: fault(401),
    ends: false,
    looksUp: true
  },
  "FC-07 404 of our id, no listing to be had": { reply: fault(404), ends: false, looksUp: false },
  "FC-07 a plain error that speaks of 404": {
    reply: Object.assign(new Error("404 not found"), { data: fault(404).data }),
    listed: others,
    ends: false,
    looksUp: false
  },
  "FC-25 accepted, and still listed": {
    reply: undefined,
    listed: [...others, reusableLeaseId],
    ends: false,
    looksUp: true
  },
  "FC-25 a receipt, and still listed": {
    reply: receipt,
    listed: [reusableLeaseId],
    ends: false,
    looksUp: true
  },
  "FC-25 a receipt, and no answer from the listing": {
    reply: receipt,
    listed: fault(500),
    ends: true,
    looksUp: true
  },
  "FC-25 accepted, and no answer from the listing": {
    reply: undefined,
    listed: fault(500),
    ends: false,
    looksUp: true
  },
  "FC-25 400 on the first delete": { reply: fault(400), listed: others, ends: false, looksUp: false },
  "FC-25 400 on a second delete leads to inspection": {
    reply: fault(400),
    listed: others,
    tries: 1,
    ends: true,
    looksUp: true
  },
  "FC-25 400 on a second delete, still listed": {
    reply: fault(400),
    listed: [reusableLeaseId],
    tries: 1,
    ends: false,
    looksUp: true
  },
  "FC-25 a failed state": {
    reply: { providerLeaseId: reusableLeaseId, state: "failed" },
    listed: others,
    ends: false,
    looksUp: false
  },
  "FC-25 a state on its way": {
    reply: { providerLeaseId: reusableLeaseId, state: "deleting" },
    listed: others,
    ends: false,
    looksUp: false
  }
}

describe("FC-07 FC-24 FC-25 a provider's answers to destroy", () => {
  for (const [name, row] of Object.entries(table)) {
    it.live(`${name}: ${row.ends ? "gone" : "kept, and a retry is allowed"}`, () =>
      Effect.gen(function* () {
        const { counts, lease, workers } = yield* sweepOver(row)
        assert.deepStrictEqual(counts, { swept: 1, destroyed: row.ends ? 1 : 0, capped: 0 })
        assert.strictEqual(workers.callsOf(listMethod).length > 0, row.looksUp)
        if (row.looksUp)
          assert.deepInclude(workers.callsOf(listMethod)[0]!.params, { installation: "holdfast" })
        if (row.ends) {
          assert.deepInclude(lease, { status: "expired", cleanupStatus: "success" })
          const isAbsence = row.reply instanceof Error
          assert.strictEqual(lease.metadata["providerAbsence"], isAbsence ? "already_absent" : undefined)
          return
        }
        assert.deepInclude(lease, { status: "pending_cleanup", cleanupTries: (row.tries ?? 0) + 1 })
        assert.isFalse(lease.metadata["pendingCleanupInFlight"])
        assert.notProperty(lease.metadata, "remoteExecutionTermination")
      }).pipe(onClone)
    )
  }

  it.live("FC-25 a failed state is told once, without a word of the provider's", () =>
    Effect.gen(function* () {
      yield* reuseFixture({ lease: pending })
      const told: Array<string> = []
      const logger = Logger.make(({ message }) => void told.push(String(message)))
      const workers = scriptedWorkers({
        call: () =>
          Effect.succeed({
            providerLeaseId: reusableLeaseId,
            state: "failed",
            reason: "canary of the provider"
          })
      })
      for (let sweeps = 0; sweeps < 3; sweeps += 1)
        yield* sweepIn({ workers: workers.manager }).pipe(Effect.provide(Logger.layer([logger])))
      assert.lengthOf(told, 1)
      assert.notInclude(told[0], "canary")
    }).pipe(onClone)
  )

  it.live(
    "RL-ORPHAN-12 RL-ORPHAN-14 a built-in resource is ended by its recorded provider, environment or not",
    () =>
      Effect.gen(function* () {
        const destroyed: Array<string> = []
        const fake: BuiltInProvider = {
          key: "fake",
          acquireLease: () => Effect.die(new Error("not asked for")),
          releaseLease: () => Effect.die(new Error("never")),
          destroyLease: ({ providerLeaseId }) => Effect.sync(() => void destroyed.push(providerLeaseId))
        }
        const tenant = yield* newTenant
        const local = yield* newEnvironment("local")
        const orphanOf = (environment: typeof local.id | null, id: string) =>
          newLease(tenant, environment, { ...pending, provider: "fake", provider_lease_id: id })
        const leases = [
          yield* orphanOf(null, "sandbox://fake/1"),
          yield* orphanOf(local.id, "sandbox://fake/2")
        ]
        for (const lease of leases) {
          const attempt = yield* Effect.flatMap(leaseNow(lease), attemptTeardown).pipe(
            inDaemon({ builtIns: [fake] })
          )
          assert.deepInclude(attempt, { _tag: "Done", knowledge: "Silent" })
        }
        assert.deepStrictEqual(destroyed, ["sandbox://fake/1", "sandbox://fake/2"])
        yield* sweepIn({ builtIns: [fake] })
        assert.deepInclude(yield* leaseNow(leases[0]!), { status: "expired", cleanupStatus: "success" })
      }).pipe(onClone)
  )

  it.live("RL-CAP-07 each end is sent only if the worker lists it right before", () =>
    Effect.gen(function* () {
      yield* reuseFixture({ lease: pending })
      const workers = scriptedWorkers({
        methods: () => ["environmentReleaseLease"],
        call: (call) => Effect.sync(() => receiptOf("destroyed")(call))
      })
      assert.deepInclude(yield* sweepIn({ workers: workers.manager }), { swept: 1, destroyed: 0 })
      assert.isEmpty(workers.calls)
    }).pipe(onClone)
  )
})
