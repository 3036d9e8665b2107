import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { holding, untilWaitingForAdvisory } from "./lockWaits.ts"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import { runtimeLogRowsMax } from "../../../src/domain/Bounds.ts"
import { type LogClaim, RuntimeLog } from "../../../src/domain/history/RuntimeLog.ts"
import { Generation, OperationId, type ProjectId } from "../../../src/domain/Identity.ts"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { lockKey } from "../../../src/infra/postgres/locks.ts"
import {
  daemon,
  fixture,
  newProject,
  provisioned,
  queued,
  self,
  succeed,
  value
} from "./operationsFixture.ts"

const numbered = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, n) => `line ${from + n}`)

const scene = Effect.gen(function* () {
  const { project } = yield* newProject
  yield* provisioned(project)
  return project
})
const linesOf = (project: ProjectId) =>
  Effect.gen(function* () {
    const log = yield* RuntimeLog
    return (yield* log.newest(project, 1_000)).map(({ line }) => line)
  })

describe("RuntimeLog", () => {
  layer(fixture, { excludeTestServices: true })((it) => {
    it.effect("SP-OPS-05 the newest 200 rows of each Project stay, in their order", () =>
      Effect.gen(function* () {
        const log = yield* RuntimeLog
        const [project, other] = [yield* scene, yield* scene]
        const operation = OperationId.make(randomUUID())
        yield* log.append(other, { operation: null, lines: ["kept"] })
        for (let from = 1; from <= 401; from += 40) {
          yield* log.append(project, { operation, lines: numbered(from, from + 39) })
        }
        assert.deepStrictEqual(yield* linesOf(project), numbered(440 - runtimeLogRowsMax + 1, 440))
        assert.strictEqual(
          yield* value("select count(*)::int from runtime_logs where project_id = $1::bigint", [project]),
          200
        )
        assert.deepStrictEqual(yield* linesOf(other), ["kept"])
        const [newest] = yield* log.newest(project, 1)
        assert.deepInclude(newest, { operation, line: "line 440" })
      })
    )

    it.effect("SP-TX-07 appending waits for who holds the Project's ring, and for nobody else", () =>
      Effect.gen(function* () {
        const log = yield* RuntimeLog
        const [project, other] = [yield* scene, yield* scene]
        const holder = yield* holding("select pg_advisory_xact_lock($1::bigint)", [
          lockKey("runtime-log", project)
        ])
        yield* log.append(other, { operation: null, lines: ["free"] })
        const appending = yield* Effect.forkChild(log.append(project, { operation: null, lines: ["late"] }))
        yield* untilWaitingForAdvisory(1)
        yield* holder.release
        yield* Fiber.join(appending)
        assert.deepStrictEqual(yield* linesOf(project), ["late"])
      })
    )

    it.effect("SP-TX-07 eight writers at once leave exactly the ring", () =>
      Effect.gen(function* () {
        const log = yield* RuntimeLog
        const project = yield* scene
        yield* Effect.forEach(
          Array.from({ length: 24 }),
          () => log.append(project, { operation: null, lines: numbered(1, 20) }),
          { concurrency: 8, discard: true }
        )
        assert.strictEqual(
          yield* value("select count(*)::int from runtime_logs where project_id = $1::bigint", [project]),
          200
        )
      })
    )

    it.effect(
      "SP-TX-06 an append alone is durable, and one in a caller's transaction is undone with it",
      () =>
        Effect.gen(function* () {
          const log = yield* RuntimeLog
          const store = yield* RuntimeStore
          const project = yield* scene
          yield* log.append(project, { operation: null, lines: ["alone"] })
          const inside = log.append(project, { operation: null, lines: ["undone"] })
          yield* Effect.flip(
            store.transaction("test", () => Effect.andThen(inside, Effect.fail("no" as const)))
          )
          assert.deepStrictEqual(yield* linesOf(project), ["alone"])
        })
    )

    it.effect("SP-OPS-06 an executor appends under the very claim that it has, and under no other", () =>
      Effect.gen(function* () {
        const log = yield* RuntimeLog
        const { operation, project } = yield* queued
        const appended = (claim: LogClaim, line: string) =>
          log.appendIfHeld(project, { operation: operation.id, lines: [line] }, claim)
        assert.isFalse(yield* appended(operation, "queued"))
        const held = Option.getOrThrow(yield* claimNext(self))
        assert.isTrue(yield* appended(held, "held"))
        const others = [
          { ...held, claimSequence: held.claimSequence - 1 },
          { ...held, claimedBy: daemon(300).toString() },
          { ...held, rowId: held.rowId + 1 }
        ]
        for (const other of others) assert.isFalse(yield* appended(other, "another's"))
        yield* succeed(held)
        assert.isFalse(yield* appended(held, "late"))
        assert.deepStrictEqual(yield* linesOf(project), ["held"])
      })
    )

    it.effect(
      "SP-DEL-10 a late line does not bring back the log of a runtime that was removed meanwhile",
      () =>
        Effect.gen(function* () {
          const log = yield* RuntimeLog
          const store = yield* RuntimeStore
          const project = yield* scene
          yield* log.append(project, { operation: null, lines: ["a", "b"] })
          // The removal's transaction is open when the late line arrives and waits.
          let appending: Fiber.Fiber<void, unknown> | undefined
          const context = yield* Effect.context<RuntimeLog>()
          const cleared = yield* store.transaction("test", (bound) =>
            Effect.gen(function* () {
              yield* bound.remove(project, Generation.make(1))
              const count = yield* log.clear(project)
              appending = Effect.runForkWith(context)(
                log.append(project, { operation: null, lines: ["late"] })
              )
              return count
            })
          )
          if (appending !== undefined) yield* Fiber.join(appending)
          assert.strictEqual(cleared, 2)
          assert.deepStrictEqual(yield* linesOf(project), [])
        })
    )
  })
})
