/** Listing, explaining and taking back operations, and ranges of the history, over a real socket. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { historyPointsMax, minuteHistorySeconds, operationsListMax } from "../../../src/domain/Bounds.ts"
import { AccessRefused, Caller } from "../../../src/domain/host/Accounts.ts"
import type { HistoryRange } from "../../../src/domain/history/History.ts"
import type { QueueSight } from "../../../src/domain/operations/waiting.ts"
import { isApiError } from "../../../src/infra/http/ApiErrors.ts"
import { administrator } from "./scriptedServer.ts"
import { serve } from "./steeredHandlers.ts"
import { storedOperation } from "./storedOperation.ts"

const member = new Caller({ ...administrator, administrator: false })
const queued = storedOperation()
const older = storedOperation({ id: queued.id.replace(/.$/, "e"), state: "failed" })
const params = { id: queued.id }

const codeOf = <A, E, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(call), (error) => (isApiError(error) ? error.code : String(error)))

const sight: QueueSight = {
  operation: queued.id,
  queuedAtMillis: 1_000,
  node: null,
  allUnseenSeconds: null,
  ahead: 0
}

describe("operationHandlers", () => {
  it.live("FC-06 a queued operation says what it waits for, wherever it is shown", () =>
    Effect.gen(function* () {
      const overview = () =>
        Effect.succeed({ runtime: Option.none(), live: Option.some(queued), newest: [queued, older] })
      const client = yield* serve({
        sights: [sight],
        operations: {
          byId: () => Effect.succeedSome(queued),
          newestOfProject: () => Effect.succeed([queued]),
          overview
        }
      })
      const status = yield* client.projects.status({ params: { project: "web" } })
      const shown = [
        yield* client.operations.get({ params }),
        ...(yield* client.operations.list({ params: { project: "web" }, query: {} })),
        ...status.operations.slice(0, 1),
        status.liveOperation
      ]
      assert.deepStrictEqual(
        [status.liveOperation?.id, ...status.operations.map(({ id }) => id)],
        [queued.id, queued.id, older.id]
      )
      assert.lengthOf(shown, 4)
      for (const operation of shown) {
        assert.deepInclude(operation?.waiting, { kind: "node", sinceMillis: 1_000 })
      }
      const why = yield* client.operations.why({ params })
      assert.include(why.steps.find(({ step }) => step === "waiting")?.told ?? "", "any node")
    })
  )

  it.live("SP-HTTP-04 an operation that the caller may not see is neither explained nor taken back", () =>
    Effect.gen(function* () {
      const hidden = yield* serve({
        caller: member,
        projects: [],
        operations: {
          byId: () => Effect.succeedSome(queued),
          takeBack: () => Effect.die(new Error("asked for a hidden operation"))
        }
      })
      assert.strictEqual(yield* codeOf(hidden.operations.why({ params })), "project_not_found")
      assert.strictEqual(yield* codeOf(hidden.operations.supersede({ params })), "project_not_found")
      const list = hidden.operations.list({ params: { project: "web" }, query: {} })
      assert.strictEqual(yield* codeOf(list), "project_not_found")
    })
  )

  it.live("FC-06 SP-ADM-04 the refusals of taking back have their codes", () =>
    Effect.gen(function* () {
      const guard = new AccessRefused({ account: member.account, project: queued.project })
      const claimed = storedOperation({ state: "claimed" })
      const table = [
        [() => Effect.fail(guard), "access_refused"],
        [() => Effect.succeedNone, "operation_not_found"],
        [
          () => Effect.succeedSome({ outcome: "refused" as const, operation: claimed }),
          "operation_not_queued"
        ]
      ] as const
      for (const [takeBack, code] of table) {
        const client = yield* serve({
          operations: { byId: () => Effect.succeedSome(queued), takeBack }
        })
        assert.strictEqual(yield* codeOf(client.operations.supersede({ params })), code)
      }
    })
  )

  it.live("SP-HTTP-05 a page goes on below its cursor, which has to be of the same Project", () =>
    Effect.gen(function* () {
      const asked: Array<object> = []
      const foreign = storedOperation({ project: 8 })
      const client = yield* serve({
        operations: {
          byId: (id) => Effect.succeed(id === queued.id ? Option.some(queued) : Option.some(foreign)),
          newestOfProject: (project, page) => {
            asked.push({ project, ...page })
            return Effect.succeed([])
          }
        }
      })
      const list = (before?: typeof queued.id) =>
        client.operations.list({
          params: { project: "web" },
          query: before === undefined ? {} : { before }
        })
      yield* list()
      yield* list(queued.id)
      assert.deepStrictEqual<ReadonlyArray<object>>(asked, [
        { project: 7, limit: operationsListMax },
        { project: 7, limit: operationsListMax, beforeRow: queued.rowId }
      ])
      const other = queued.id.replace(/.$/, "f") as typeof queued.id
      assert.strictEqual(yield* codeOf(list(other)), "operation_not_found")
    })
  )

  it.live("a range of the history is read as it is asked for, and one beyond the bound is refused", () =>
    Effect.gen(function* () {
      const asked: Array<HistoryRange> = []
      const client = yield* serve({
        history: (_, range) => {
          asked.push(range)
          return Effect.succeed([])
        }
      })
      const read = (query: Parameters<typeof client.projects.history>[0]["query"]) =>
        client.projects.history({ params: { project: "web" }, query })
      yield* read({ metric: "pids", resolution: "hour", fromMillis: 0, toMillis: 3_600_000 })
      assert.deepStrictEqual(asked, [
        { metrics: ["pids"], resolution: "hour", fromMillis: 0, toMillis: 3_600_000 }
      ])
      yield* read({})
      assert.deepStrictEqual(
        asked.slice(1).map(({ resolution }) => resolution),
        ["minute", "hour"]
      )
      const [, minutes] = asked
      assert.strictEqual(minutes!.toMillis - minutes!.fromMillis, minuteHistorySeconds * 1_000)
      const tooLong = {
        resolution: "minute",
        fromMillis: 0,
        toMillis: (historyPointsMax + 1) * 60_000
      } as const
      assert.strictEqual(yield* codeOf(read(tooLong)), "history_range_refused")
      const backwards = { resolution: "hour", fromMillis: 2, toMillis: 1 } as const
      assert.strictEqual(yield* codeOf(read(backwards)), "history_range_refused")
      assert.lengthOf(asked, 3)
    })
  )
})
