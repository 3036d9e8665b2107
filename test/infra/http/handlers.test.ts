/** The real handlers over a real socket, with ports that a test steers: what they resolve, hide and carry on. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Ref from "effect/Ref"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import { Generation } from "../../../src/domain/Identity.ts"
import { GuestFailure, GuestIdentity, GuestObservation } from "../../../src/domain/guests/GuestSupervisor.ts"
import { NotFound } from "../../../src/infra/http/ApiErrors.ts"
import { administrator, deletionOfWeb, uuid } from "./scriptedServer.ts"
import { canary, storedOperation, storedRuntime } from "./storedOperation.ts"
import { capacity, serve } from "./steeredHandlers.ts"

const member = new Caller({ ...administrator, administrator: false })
const operationId = storedOperation().id
const { sandbox } = storedRuntime(uuid(3)).recipe!

const identity = new GuestIdentity({
  supervisor: "bubblewrap",
  sandbox,
  generation: Generation.make(1),
  runId: uuid(6),
  attemptId: uuid(7),
  bootId: uuid(8),
  monitor: { pid: 1, startTicks: "1" },
  init: { pid: 2, startTicks: "1" },
  groups: [],
  userId: 30_000
})

describe("handlers", () => {
  it.live(
    "SP-HTTP-04 an operation of a Project that a member may not see is answered like a missing one",
    () =>
      Effect.gen(function* () {
        const hidden = yield* serve({ caller: member, projects: [] })
        const error = yield* Effect.flip(hidden.operations.get({ params: { id: operationId } }))
        assert.deepStrictEqual(
          ["code" in error ? error.code : "", error instanceof NotFound],
          ["project_not_found", true]
        )
        const seen = yield* serve({ caller: member })
        assert.strictEqual((yield* seen.operations.get({ params: { id: operationId } })).id, operationId)
      })
  )

  it.live("an administrator still reads the receipts of a Project that is gone", () =>
    Effect.gen(function* () {
      const client = yield* serve({ projects: [] })
      assert.strictEqual((yield* client.operations.get({ params: { id: operationId } })).id, operationId)
    })
  )

  it.live("FC-21 no answer shows a recipe, a parameter or a claimant", () =>
    Effect.gen(function* () {
      const client = yield* serve()
      const status = yield* client.projects.status({ params: { project: "web" } })
      const operation = yield* client.operations.get({ params: { id: operationId } })
      const why = yield* client.operations.why({ params: { id: operationId } })
      const taken = yield* client.operations.supersede({ params: { id: operationId } })
      const listed = yield* client.operations.list({ params: { project: "web" }, query: {} })
      assert.lengthOf(status.operations, 1)
      assert.deepStrictEqual(status.charges.capacity, capacity)
      assert.notInclude(JSON.stringify([status, operation, why, taken, listed]), canary)
    })
  )

  const sights = [
    ["bubblewrap", "lives", Effect.succeed(GuestObservation.cases.Running.make({ identity }))],
    ["bubblewrap", "is paused", Effect.succeed(GuestObservation.cases.Paused.make({ identity }))],
    [null, "is in doubt", Effect.succeed(GuestObservation.cases.Uncertain.make({ why: "no answer" }))],
    [null, "cannot be seen", Effect.fail(new GuestFailure({ sandbox, step: "look", detail: "EIO" }))]
  ] as const
  for (const [carriedBy, state, seen] of sights) {
    it.live(`the status names ${carriedBy ?? "nobody"} as the carrier of an auto guest that ${state}`, () =>
      Effect.gen(function* () {
        const client = yield* serve({ runtime: storedRuntime(uuid(3)), inspect: () => seen })
        const { runtime } = yield* client.projects.status({ params: { project: "web" } })
        assert.deepInclude(runtime, { supervisor: "auto", carriedBy, sandbox })
      })
    )
  }

  it.live("of a runtime that another node carries this machine is not asked", () =>
    Effect.gen(function* () {
      const client = yield* serve({ runtime: storedRuntime(uuid(5)) })
      const { runtime } = yield* client.projects.status({ params: { project: "web" } })
      assert.deepInclude(runtime, { supervisor: "auto", carriedBy: null })
    })
  )

  it.live("a deletion that was admitted goes on when its caller hangs up", () =>
    Effect.gen(function* () {
      const [reached, release, removed] = [
        yield* Deferred.make<void>(),
        yield* Deferred.make<void>(),
        yield* Deferred.make<void>()
      ]
      const removing = Deferred.succeed(reached, undefined).pipe(
        Effect.andThen(Deferred.await(release)),
        Effect.andThen(Deferred.succeed(removed, undefined)),
        Effect.asVoid
      )
      const client = yield* serve({ removing })
      const request = {
        params: { project: "web" },
        payload: { confirmedPaths: deletionOfWeb.confirmedPaths }
      }
      const caller = yield* Effect.forkChild(client.projects.delete(request))
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(caller)
      // Later requests are answered after the server has seen the earlier connection close.
      for (const _ of [1, 2, 3]) yield* client.system.health()
      yield* Deferred.succeed(release, undefined)
      yield* Effect.timeout(Deferred.await(removed), "5 seconds")
    })
  )

  it.live("SP-DEL-07 paths that are not those of the preview are refused, and nothing is removed", () =>
    Effect.gen(function* () {
      const removed = yield* Ref.make(false)
      const client = yield* serve({ removing: Ref.set(removed, true) })
      const preview = yield* client.projects.previewDeletion({ params: { project: "7" } })
      for (const confirmedPaths of [preview.paths.slice(1), [...preview.paths, "/etc"]]) {
        const request = { params: { project: "web" }, payload: { confirmedPaths } }
        const error = yield* Effect.flip(client.projects.delete(request))
        assert.strictEqual("code" in error ? error.code : "", "confirmation_stale")
      }
      assert.isFalse(yield* Ref.get(removed))
      const request = { params: { project: "web" }, payload: { confirmedPaths: preview.paths } }
      assert.strictEqual((yield* client.projects.delete(request)).state, "completed")
      assert.isTrue(yield* Ref.get(removed))
    })
  )
})
