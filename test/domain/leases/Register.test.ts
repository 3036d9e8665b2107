/** The register of one kind of lease: what the monotonic clock and a heartbeat's answer make of it. */
import { assert, describe, it } from "@effect/vitest"
import { Generation, LeaseId, SandboxId } from "../../../src/domain/Identity.ts"
import { admitting, makeRegister, type RenewalOutcome } from "../../../src/domain/leases/Register.ts"

const termSeconds = 30
const termNanos = BigInt(termSeconds) * 1_000_000_000n

const place = {
  id: LeaseId.make("00000000-0000-4000-8000-000000000001"),
  sandbox: SandboxId.make("sb-00000000-0000-4000-8000-000000000001"),
  generation: Generation.make(1)
}

/** A register with one lease that was asked for at time 0 and is held. */
const holding = () => {
  const register = makeRegister<never, ReturnType<typeof admitting>>(termSeconds)
  register.announce(admitting(place, 0n))
  const held = register.admitted(place.id)
  if (held === undefined) throw new Error("the announced lease is not in the register")
  return { held, register }
}

const beat = (outcome: RenewalOutcome["outcome"], sentAtNanos: bigint, answeredAtNanos = sentAtNanos) => {
  const { held, register } = holding()
  register.beginBeat(sentAtNanos)
  register.applyBeat([{ id: place.id, outcome }], { sentAtNanos, answeredAtNanos })
  register.endBeat()
  return (nowNanos: bigint) => register.whyInvalid(held, nowNanos)
}

describe("Register", () => {
  it("FC-11 the term counts from before a renewal was sent, and is over in its very last moment", () => {
    const why = beat("renewed", 10n, 10n + termNanos)
    assert.isNull(why(9n + termNanos))
    assert.strictEqual(why(10n + termNanos), "expired")
  })

  it("a row brought back after the term is not used again, one within it is", () => {
    assert.isNull(beat("restored", 5n, termNanos - 1n)(6n))
    assert.strictEqual(beat("restored", 5n, termNanos)(6n), "expired")
  })

  it("a lease that was lost stays lost and is asked about no more", () => {
    for (const outcome of ["successor", "generation", "cancelled", "expired"] as const) {
      assert.strictEqual(beat(outcome, 5n)(6n), outcome)
    }
    const { register } = holding()
    register.applyBeat([{ id: place.id, outcome: "successor" }], { sentAtNanos: 1n, answeredAtNanos: 1n })
    assert.deepStrictEqual(register.beginBeat(2n), [])
  })

  it("a row that just went leaves the lease to its term and to the next heartbeat", () => {
    const why = beat("absent", 5n)
    assert.isNull(why(6n))
    assert.strictEqual(why(termNanos), "expired")
  })

  it("only what is held is renewed, and a lease past its term is not brought back", () => {
    const { held, register } = holding()
    assert.deepStrictEqual(register.beginBeat(termNanos - 1n), [{ held, restorable: true }])
    assert.deepStrictEqual(register.beginBeat(termNanos), [{ held, restorable: false }])
    assert.isFalse(register.settlesForGood(), "two heartbeats are on their way")
    held.phase = "settling"
    assert.deepStrictEqual(register.beginBeat(1n), [])
    assert.strictEqual(register.whyInvalid(held, 1n), "settled")
    assert.deepStrictEqual(register.settling(), [held])
    register.forget(held)
    assert.strictEqual(register.size(), 0)
  })
})
