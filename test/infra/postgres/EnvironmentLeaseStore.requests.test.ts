/** Request keys of acquisitions: of several daemons that come with one, the database lets one through; on clones. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { AcquisitionRequestTaken } from "../../../src/domain/environments/ProviderIntent.ts"
import { RequestKey } from "../../../src/domain/Identity.ts"
import { newEnvironment, newTenant, onClone, reuseFixture } from "../../domain/runLeases/fixture.ts"
import { leaseRow, leaseRowsOf, setLease } from "../../domain/runLeases/rawRows.ts"
import { sideBySide } from "../../support/sideBySide.ts"
import { acquisition, insideHeld, intention } from "./leaseRequests.ts"

const key = RequestKey.make("request-1")
const request = { key, fingerprint: "digest" }
const noted = { metadata: { acquisitionRequest: request } }
const placed = Effect.gen(function* () {
  return { tenant: yield* newTenant, environment: yield* newEnvironment("sandbox") }
})

/** The contender's intent while the holder's statement is not yet committed. */
const whileHeld = (act: Parameters<typeof insideHeld>[0], here: Effect.Success<typeof placed>) =>
  Effect.gen(function* () {
    const leases = yield* EnvironmentLeaseStore
    const { contender, holder, waited } = yield* sideBySide(
      (held) => insideHeld(act, held),
      Effect.result(leases.intend(intention(here, { request })))
    )
    assert.isTrue(Exit.isSuccess(holder))
    assert.isTrue(waited)
    return Exit.isSuccess(contender) && contender.value._tag === "Failure" ? contender.value.failure : null
  })

describe("request keys of acquisitions", () => {
  it.live("FC-04 of two intents at once under one key one waits, and is told that it is taken", () =>
    Effect.gen(function* () {
      const here = yield* placed
      const leases = yield* EnvironmentLeaseStore
      const first = intention(here, { request })
      const refused = yield* whileHeld((held) => held.intend(first), here)
      assert.instanceOf(refused, AcquisitionRequestTaken)
      assert.deepStrictEqual(
        (yield* leases.intents).map(({ id }) => id),
        [first.id]
      )
      const holder = yield* leases.holderOfRequest(here.tenant, key)
      assert.deepStrictEqual(Option.getOrThrow(holder), {
        intent: first.id,
        process: first.process,
        fingerprint: "digest"
      })
      yield* leases.intend(first)
    }).pipe(onClone)
  )

  it.live("FC-04 who comes while the intent becomes a lease waits, and is told that it is taken", () =>
    Effect.gen(function* () {
      const here = yield* placed
      const leases = yield* EnvironmentLeaseStore
      const first = intention(here, { request })
      yield* leases.intend(first)
      const refused = yield* whileHeld(
        (held) => held.acquireLease(acquisition(here, { id: first.id, ...noted })),
        here
      )
      assert.instanceOf(refused, AcquisitionRequestTaken)
      assert.deepStrictEqual(yield* leases.intents, [])
      assert.deepStrictEqual(yield* leases.holderOfRequest(here.tenant, key), Option.none())
    }).pipe(onClone)
  )

  it.live.each([
    ["came to nothing", "dropIntent"],
    ["was lost", "freeRequestKey"]
  ] as const)("FC-04 who comes while an intent that %s is given up has the key then", ([, method]) =>
    Effect.gen(function* () {
      const here = yield* placed
      const leases = yield* EnvironmentLeaseStore
      const first = intention(here, { request })
      yield* leases.intend(first)
      assert.isNull(yield* whileHeld((held) => held[method](first.id), here))
      const holder = Option.getOrThrow(yield* leases.holderOfRequest(here.tenant, key))
      assert.notStrictEqual(holder.intent, first.id)
      assert.strictEqual((yield* leases.intents).length, method === "dropIntent" ? 1 : 2)
    }).pipe(onClone)
  )

  it.live("FC-04 a key is its tenant's own, and no key is nobody's", () =>
    Effect.gen(function* () {
      const [here, there] = [yield* placed, yield* placed]
      const leases = yield* EnvironmentLeaseStore
      yield* leases.intend(intention(here, { request }))
      yield* leases.intend(intention(there, { request }))
      yield* leases.intend(intention(here))
      yield* leases.intend(intention(here))
      assert.strictEqual((yield* leases.intents).length, 4)
    }).pipe(onClone)
  )

  it.live("FC-04 a second lease under the key is refused, also where no provider was asked before", () =>
    Effect.gen(function* () {
      const here = yield* placed
      const leases = yield* EnvironmentLeaseStore
      const asked = acquisition(here, noted)
      const lease = yield* leases.acquireLease(asked)
      assert.deepStrictEqual(yield* leases.acquireLease(asked), lease)
      const refused = yield* Effect.flip(leases.acquireLease(acquisition(here, noted)))
      assert.instanceOf(refused, AcquisitionRequestTaken)
      assert.strictEqual((yield* leaseRowsOf(here.environment.id)).length, 1)
      assert.deepStrictEqual(yield* leases.leaseOfRequest(here.tenant, key), Option.some(lease))
    }).pipe(onClone)
  )

  it.live("FC-04 one that would take a resource over leaves the former row as it is", () =>
    Effect.gen(function* () {
      const scene = yield* reuseFixture()
      yield* setLease(scene.lease, { status: "released", cleanup_status: "success" })
      const leases = yield* EnvironmentLeaseStore
      yield* leases.acquireLease(acquisition(scene, noted))
      const former = yield* leaseRow(scene.lease)
      const over = acquisition(scene, {
        policy: "reuse_by_environment",
        providerLeaseId: String(former["provider_lease_id"]),
        executionWorkspace: scene.workspace,
        metadata: { ...former.metadata, ...noted.metadata },
        replaces: scene.lease
      })
      assert.instanceOf(yield* Effect.flip(leases.acquireLease(over)), AcquisitionRequestTaken)
      assert.deepStrictEqual(yield* leaseRow(scene.lease), former)
      yield* leases.acquireLease({ ...over, metadata: former.metadata })
      assert.strictEqual((yield* leaseRow(scene.lease))["status"], "expired")
    }).pipe(onClone)
  )
})
