import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as TestClock from "effect/testing/TestClock"
import { sandboxLifeSecondsMin } from "../../../src/domain/Bounds.ts"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { decideRenewal, renewSandbox } from "../../../src/domain/registry/renewal.ts"
import { failNext, lookAt, recordOf, sandboxOf, withDeletion } from "./fixture.ts"
import { freshNode, on, requestOf } from "./guestFixture.ts"

const one = sandboxOf(1)
const lifeSecondsMax = 1_000

const renew = (lifeSeconds: number) => renewSandbox(one, { lifeSeconds, lifeSecondsMax })

const created = Effect.gen(function* () {
  const node = yield* freshNode()
  yield* on(node)(createSandbox(requestOf(1, { lifeSeconds: 600 })))
  return node
})

describe("registry/renewal", () => {
  it.effect("RG-DEL-09 a renewal is durable, counts from now, and changes nothing else", () =>
    Effect.gen(function* () {
      const node = yield* created
      yield* TestClock.adjust("100 seconds")
      const before = yield* node.registry.get(one)
      const renewed = yield* on(node)(renew(501))
      assert.strictEqual(renewed.expiresAtMillis, 601_000)
      assert.deepStrictEqual({ ...renewed, expiresAtMillis: 0 }, { ...before, expiresAtMillis: 0 })
      assert.strictEqual((yield* lookAt(node.directory)).get(one)?.expiresAtMillis, 601_000)
    })
  )

  it.effect("a renewal that does not end later than the life that there is, is refused by its field", () =>
    Effect.gen(function* () {
      const node = yield* created
      for (const lifeSeconds of [60, 600]) {
        const refusal = yield* Effect.flip(on(node)(renew(lifeSeconds)))
        assert.deepInclude(refusal, { _tag: "InvalidSandboxRequest", field: "lifeSeconds" })
      }
      assert.strictEqual((yield* node.registry.get(one)).expiresAtMillis, 600_000)
    })
  )

  it.effect("a life one second out of bounds is refused, and one at the bound is not", () =>
    Effect.gen(function* () {
      const node = yield* created
      for (const lifeSeconds of [sandboxLifeSecondsMin - 1, lifeSecondsMax + 1, 601.5, Number.NaN]) {
        const refusal = yield* Effect.flip(on(node)(renew(lifeSeconds)))
        assert.deepInclude(refusal, { _tag: "InvalidSandboxRequest", field: "lifeSeconds" })
      }
      assert.strictEqual((yield* on(node)(renew(lifeSecondsMax))).expiresAtMillis, 1_000_000)
      yield* TestClock.adjust("2000 seconds")
      assert.strictEqual((yield* on(node)(renew(sandboxLifeSecondsMin))).expiresAtMillis, 2_060_000)
    })
  )

  it.effect("once its deletion is intended a sandbox is not renewed: expired, or being deleted", () =>
    Effect.gen(function* () {
      const node = yield* created
      yield* node.registry.update(one, withDeletion)
      assert.strictEqual((yield* Effect.flip(on(node)(renew(900))))._tag, "SandboxStateRefused")
    })
  )

  it("an expired sandbox whose deletion is intended says so", () => {
    const deletion = { reason: "expired", actor: "node", requestedAtMillis: 1 } as const
    const decided = decideRenewal(new SandboxRecord({ ...recordOf(1), deletion }), 1e12)
    assert.isTrue(Result.isFailure(decided) && decided.failure._tag === "SandboxExpired")
  })

  it.effect("a renewal that could not be written changes nothing", () =>
    Effect.gen(function* () {
      const node = yield* created
      failNext(node.disk, "create")
      assert.strictEqual((yield* Effect.flip(on(node)(renew(900))))._tag, "RegistryWriteFailed")
      assert.strictEqual((yield* node.registry.get(one)).expiresAtMillis, 600_000)
    })
  )
})
