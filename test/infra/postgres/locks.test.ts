/** Keys of advisory locks: nothing of one kind can meet something of another. */
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type LockClass, lockClasses, lockKey, namedLockKey } from "../../../src/infra/postgres/locks.ts"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { Clone, clone } from "../../support/clone.ts"

const kinds = Object.keys(lockClasses) as ReadonlyArray<LockClass>
const Kind = Schema.Literals(kinds)
const biggest = 2n ** 63n - 1n

/** Class of a key: its highest byte. */
const classOf = (key: bigint): bigint => key >> 56n

describe("locks", () => {
  it("SP-TX-07 every class has a number of its own between 1 and 127", () => {
    const numbers = Object.values(lockClasses)
    assert.strictEqual(new Set(numbers).size, numbers.length)
    assert.isTrue(numbers.every((number) => Number.isInteger(number) && number >= 1 && number <= 127))
  })

  it.prop(
    "SP-TX-07 a key stays in its class and in eight bytes, whatever is locked",
    { kind: Kind, id: ProjectId, name: Schema.String },
    ({ id, kind, name }) => {
      for (const key of [lockKey(kind, id), namedLockKey(kind, name)]) {
        assert.strictEqual(classOf(key), BigInt(lockClasses[kind]))
        assert.isTrue(key > 0n && key <= biggest)
      }
    }
  )

  it.prop(
    "SP-TX-07 two Projects never share a key of one class",
    { kind: Kind, ids: Arbitrary.array(Arbitrary.schema(ProjectId), { minLength: 2, maxLength: 20 }) },
    ({ ids, kind }) => {
      assert.strictEqual(new Set(ids.map((id) => lockKey(kind, id))).size, new Set(ids).size)
    }
  )

  it.live("SP-TX-07 the server takes the smallest and the biggest key", () =>
    Effect.gen(function* () {
      const { admin } = yield* Clone
      const keys = [lockKey("receipts", 1), lockKey("repository", Number.MAX_SAFE_INTEGER), biggest]
      for (const key of keys) {
        const taken = yield* admin("select pg_try_advisory_lock($1::bigint) as taken", [key])
        assert.deepStrictEqual(taken, [{ taken: true }])
      }
    }).pipe(Effect.provide(clone(1)))
  )
})
