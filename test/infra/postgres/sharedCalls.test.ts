import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { halvedCallsMin, sharedCallsAtOnceMax, sharedCallsMax } from "../../../src/domain/Bounds.ts"
import { StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import { makeSharedCalls } from "../../../src/infra/postgres/sharedCalls.ts"

const failure = (state: string | null) =>
  new StorageFailure({
    operation: "test",
    fault: state === null ? "connection" : "query",
    state,
    constraint: null
  })

interface Script {
  /** What becomes of a statement of several; without it, it answers all. */
  readonly together?: (asked: ReadonlyArray<number>) => Effect.Effect<ReadonlyArray<number>, StorageFailure>
  readonly subjectOf?: (asked: number) => number
}

/** Calls whose statements wait until the test lets them go; `0` is the caller who is alone at first. */
const scripted = Effect.fnUntraced(function* (script: Script = {}) {
  const scope = yield* Scope.make()
  const gate = yield* Deferred.make<void>()
  const alone: Array<number> = []
  const statements: Array<ReadonlyArray<number>> = []
  const call = yield* makeSharedCalls<number, string, never>({
    alone: (asked) =>
      Effect.suspend(() => {
        alone.push(asked)
        return asked === 0 ? Effect.as(Deferred.await(gate), "alone 0") : Effect.succeed(`alone ${asked}`)
      }),
    together: (asked) =>
      Effect.suspend(() => {
        statements.push(asked)
        const served = script.together?.(asked) ?? Effect.succeed(asked)
        return Effect.map(served, (ids) => new Map(ids.map((id) => [id, `together ${id}`])))
      }),
    subjectOf: script.subjectOf ?? ((asked) => asked)
  }).pipe(Scope.provide(scope))
  const first = yield* Effect.forkChild(call(0), { startImmediately: true })
  return { alone, call, close: Scope.close(scope, Exit.void), first, gate, statements }
})

const many = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at)

describe("calls that share a statement", () => {
  it.effect("a caller with nobody beside him asks alone, and so does the next one when he has ended", () =>
    Effect.gen(function* () {
      const { alone, call, first, gate, statements } = yield* scripted()
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual(yield* Fiber.join(first), "alone 0")
      assert.strictEqual(yield* call(1), "alone 1")
      assert.deepStrictEqual([alone, statements], [[0, 1], []])
    })
  )

  it.effect("callers who come together share one statement, and each has his own answer", () =>
    Effect.gen(function* () {
      const { call, statements } = yield* scripted()
      const asked = many(1, halvedCallsMin - 1)
      const told = yield* Effect.forEach(asked, call, { concurrency: "unbounded" })
      assert.deepStrictEqual(
        told,
        asked.map((one) => `together ${one}`)
      )
      assert.deepStrictEqual(statements, [asked])
    })
  )

  it.effect("many callers go in two statements, one behind the other", () =>
    Effect.gen(function* () {
      const { call, statements } = yield* scripted()
      const asked = many(1, halvedCallsMin + 1)
      yield* Effect.forEach(asked, call, { concurrency: "unbounded" })
      const half = Math.ceil(asked.length / 2)
      assert.deepStrictEqual(statements, [asked.slice(0, half), asked.slice(half)])
    })
  )

  it.effect("at most so many share a statement", () =>
    Effect.gen(function* () {
      const { call, statements } = yield* scripted()
      const asked = many(1, 2 * sharedCallsMax + 5)
      yield* Effect.forEach(asked, call, { concurrency: "unbounded" })
      assert.deepStrictEqual(statements.flat(), asked)
      assert.strictEqual(Math.max(...statements.map(({ length }) => length)), sharedCallsMax)
    })
  )

  it.effect(
    "no more statements than the bound are under way, and who comes meanwhile waits for the next",
    () =>
      Effect.gen(function* () {
        const open = yield* Deferred.make<void>()
        const { call, statements } = yield* scripted({
          together: (asked) => Effect.as(Deferred.await(open), asked)
        })
        const fibers: Array<Fiber.Fiber<string, StorageFailure>> = []
        for (const one of many(1, sharedCallsAtOnceMax + 3)) {
          fibers.push(yield* Effect.forkChild(call(one), { startImmediately: true }))
          for (let turn = 0; turn < 5; turn += 1) yield* Effect.yieldNow
        }
        assert.strictEqual(statements.length, sharedCallsAtOnceMax)
        yield* Deferred.succeed(open, undefined)
        yield* Effect.forEach(fibers, Fiber.join)
        assert.deepStrictEqual(statements.slice(sharedCallsAtOnceMax), [
          many(sharedCallsAtOnceMax + 1, sharedCallsAtOnceMax + 3)
        ])
      })
  )

  it.effect("two calls about one thing never share a statement", () =>
    Effect.gen(function* () {
      const { call, statements } = yield* scripted({ subjectOf: (asked) => asked % 3 })
      yield* Effect.forEach(many(1, 6), call, { concurrency: "unbounded" })
      assert.deepStrictEqual(statements, [
        [1, 2, 3],
        [4, 5, 6]
      ])
    })
  )

  it.effect("who is left out asks alone, and the others do not wait for him", () =>
    Effect.gen(function* () {
      const { alone, call } = yield* scripted({
        together: (asked) => Effect.succeed(asked.filter((one) => one !== 2))
      })
      const told = yield* Effect.forEach([1, 2, 3], call, { concurrency: "unbounded" })
      assert.deepStrictEqual(told, ["together 1", "alone 2", "together 3"])
      assert.deepStrictEqual(alone, [0, 2])
    })
  )

  it.effect("a statement that the server refused is asked again one by one", () =>
    Effect.gen(function* () {
      const { call } = yield* scripted({ together: () => Effect.fail(failure("22P02")) })
      const told = yield* Effect.forEach([1, 2], call, { concurrency: "unbounded" })
      assert.deepStrictEqual(told, ["alone 1", "alone 2"])
    })
  )

  it.effect("a statement whose answer is lost is told to all of its callers, and not asked again", () =>
    Effect.gen(function* () {
      const { alone, call } = yield* scripted({ together: () => Effect.fail(failure(null)) })
      const told = yield* Effect.forEach([1, 2], (one) => Effect.flip(call(one)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(
        told.map(({ fault }) => fault),
        ["connection", "connection"]
      )
      assert.deepStrictEqual(alone, [0])
    })
  )

  it.effect("who hangs up before his statement goes is not in it", () =>
    Effect.gen(function* () {
      const { call, statements } = yield* scripted()
      const gone = yield* Effect.forkChild(call(1), { startImmediately: true })
      const stays = yield* Effect.forkChild(call(2), { startImmediately: true })
      yield* Fiber.interrupt(gone)
      yield* Fiber.join(stays)
      assert.deepStrictEqual(statements, [[2]])
    })
  )

  it.effect("nobody is left waiting when the scope closes", () =>
    Effect.gen(function* () {
      const { call, close } = yield* scripted({ together: () => Effect.never })
      const fibers: Array<Fiber.Fiber<string, StorageFailure>> = []
      for (const one of many(1, 5)) {
        fibers.push(yield* Effect.forkChild(call(one), { startImmediately: true }))
        for (let turn = 0; turn < 5; turn += 1) yield* Effect.yieldNow
      }
      yield* close
      for (const fiber of fibers) assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    })
  )
})
