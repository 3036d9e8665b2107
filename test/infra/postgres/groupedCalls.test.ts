import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { PluginTx, StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import { groupedCalls } from "../../../src/infra/postgres/groupedCalls.ts"

const failure = (fault: StorageFailure["fault"]) =>
  new StorageFailure({ operation: "test", fault, state: null, constraint: null })

/** Statements that answer ten times what was asked, and what each of them carried. */
const counting = (
  max: number,
  fail: (calls: ReadonlyArray<number>) => StorageFailure | null = () => null
) => {
  const statements: Array<ReadonlyArray<number>> = []
  const call = groupedCalls<number, number>({
    max,
    run: (calls) =>
      Effect.suspend(() => {
        statements.push(calls)
        const fault = fail(calls)
        return fault === null ? Effect.succeed(calls.map((each) => each * 10)) : Effect.fail(fault)
      })
  })
  return { call, statements }
}

const numbers = (length: number) => Array.from({ length }, (_, at) => at)

describe("groupedCalls", () => {
  it.effect("a call alone is a statement of its own", () =>
    Effect.gen(function* () {
      const { call, statements } = counting(10)
      assert.strictEqual(yield* call(1), 10)
      assert.strictEqual(yield* call(2), 20)
      // Whoever carried them out has come to rest by now.
      for (let turns = 0; turns < 20; turns += 1) yield* Effect.yieldNow
      assert.strictEqual(yield* call(3), 30)
      assert.deepStrictEqual(statements, [[1], [2], [3]])
    })
  )

  it.effect("whoever has been alone does not wait for others that may come", () =>
    Effect.gen(function* () {
      const { call, statements } = counting(10)
      yield* call(1)
      for (let turns = 0; turns < 20; turns += 1) yield* Effect.yieldNow
      yield* Effect.forkChild(call(2), { startImmediately: true })
      assert.deepStrictEqual(statements, [[1], [2]])
    })
  )

  it.effect("what is asked for at once goes together, in at most so many, and each has its own answer", () =>
    Effect.gen(function* () {
      const { call, statements } = counting(4)
      const answers = yield* Effect.forEach(numbers(10), call, { concurrency: "unbounded" })
      assert.deepStrictEqual(
        answers,
        numbers(10).map((each) => each * 10)
      )
      assert.deepStrictEqual(
        statements.map(({ length }) => length),
        [4, 4, 2]
      )
    })
  )

  it.effect("what comes while a statement is under way waits for the next one", () =>
    Effect.gen(function* () {
      const barrier = yield* Deferred.make<void>()
      const statements: Array<ReadonlyArray<number>> = []
      const call = groupedCalls<number, number>({
        max: 10,
        run: (calls) =>
          Effect.suspend(() => {
            statements.push(calls)
            return statements.length === 1 ? Effect.as(Deferred.await(barrier), calls) : Effect.succeed(calls)
          })
      })
      const first = yield* Effect.forkChild(call(1))
      while (statements.length === 0) yield* Effect.yieldNow
      const later = yield* Effect.forkChild(Effect.forEach([2, 3], call, { concurrency: 2 }))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(first)
      yield* Deferred.succeed(barrier, undefined)
      assert.deepStrictEqual(yield* Fiber.join(later), [2, 3])
      assert.deepStrictEqual(statements, [[1], [2, 3]])
    })
  )

  it.effect("a fault that one of them may have brought about hits that one alone", () =>
    Effect.gen(function* () {
      const { call, statements } = counting(10, (calls) => (calls.includes(1) ? failure("constraint") : null))
      const answers = yield* Effect.forEach(numbers(3), (each) => Effect.exit(call(each)), { concurrency: 3 })
      assert.deepStrictEqual(answers.map(Exit.isSuccess), [true, false, true])
      assert.deepStrictEqual(statements, [[0, 1, 2], [0], [1], [2]])
    })
  )

  it.effect("a fault of the database's hits them all, and none is sent again", () =>
    Effect.gen(function* () {
      const { call, statements } = counting(10, () => failure("connection"))
      const answers = yield* Effect.forEach(numbers(3), (each) => Effect.exit(call(each)), { concurrency: 3 })
      assert.isTrue(answers.every(Exit.isFailure))
      assert.lengthOf(statements, 1)
    })
  )

  it.effect("a mistake of ours answers everybody, and the next call goes on", () =>
    Effect.gen(function* () {
      let isBroken = true
      const call = groupedCalls<number, number>({
        max: 10,
        run: (calls) => (isBroken ? Effect.die(new Error("mistake")) : Effect.succeed(calls))
      })
      assert.isTrue(Exit.hasDies(yield* Effect.exit(call(1))))
      isBroken = false
      assert.strictEqual(yield* call(2), 2)
    })
  )

  it.effect("SP-TX-02 a call inside a transaction goes alone and in it, and takes nobody along", () =>
    Effect.gen(function* () {
      const seen: Array<readonly [calls: ReadonlyArray<number>, inside: boolean]> = []
      const call = groupedCalls<number, number>({
        max: 10,
        run: (calls) =>
          Effect.map(Effect.serviceOption(PluginTx), (tx) => {
            seen.push([calls, tx._tag === "Some"])
            return calls
          })
      })
      const tx = PluginTx.of({
        query: () => Effect.die(new Error("no statement is meant")),
        afterCommit: () => Effect.void,
        readOnly: false
      })
      const inside = Effect.provideService(call(1), PluginTx, tx)
      assert.deepStrictEqual(
        yield* Effect.all([inside, call(2), call(3)], { concurrency: "unbounded" }),
        [1, 2, 3]
      )
      assert.deepStrictEqual(seen, [
        [[1], true],
        [[2, 3], false]
      ])
    })
  )
})
