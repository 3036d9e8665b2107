import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { GuestSpecRefused } from "../../../src/domain/guests/GuestSupervisor.ts"
import { Generation } from "../../../src/domain/Identity.ts"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { failNext as failGuest } from "../../../src/infra/guests/scriptedState.ts"
import { failNext, lookAt, sandboxOf } from "./fixture.ts"
import { freshNode, on, requestOf } from "./guestFixture.ts"

describe("registry/creation", () => {
  it.live(
    "RG-REC-01 a created sandbox is Pending, charged and durable, with ids and a token of its own, and not started",
    () =>
      Effect.gen(function* () {
        const node = yield* freshNode()
        const record = yield* on(node)(createSandbox(requestOf(1, { lifeSeconds: 60 })))
        const other = yield* on(node)(createSandbox(requestOf(2)))
        assert.strictEqual(record.status, "Pending")
        assert.strictEqual(record.expiresAtMillis - record.createdAtMillis, 60_000)
        for (const field of ["runId", "attemptId", "endpointToken"] as const) {
          assert.notStrictEqual(record[field], other[field])
        }
        assert.match(record.endpointToken, /^[0-9a-f]{64}$/)
        assert.deepStrictEqual({ ...(yield* lookAt(node.directory)).get(record.id)! }, { ...record })
        assert.strictEqual((yield* node.registry.charges).cpuMillis, 200)
        assert.deepStrictEqual(node.guests.calls, [])
      })
  )

  it.live("the same request again answers the record that is there, however its pairs are ordered", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      const record = yield* on(node)(createSandbox(requestOf(1)))
      node.disk.calls.length = 0
      const again = yield* on(node)(createSandbox(requestOf(1, { environment: { A: "1", TOKEN: "s3cret" } })))
      assert.deepStrictEqual(again, record)
      assert.deepStrictEqual(node.disk.calls, [])
    })
  )

  it.live.each([
    ["image", { image: "/other" }],
    ["environment", { environment: { TOKEN: "s3cret", A: "2" } }],
    ["generation", { generation: Generation.make(2) }],
    ["memory", { memoryBytes: 2_048 }],
    ["disk", { disk: "/disks/1" }]
  ] as const)("another request under the same id is refused: another %s", ([, fields]) =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      yield* on(node)(createSandbox(requestOf(1)))
      const refusal = yield* Effect.flip(on(node)(createSandbox(requestOf(1, fields))))
      assert.deepInclude(refusal, { _tag: "SandboxIdTaken", by: "record" })
    })
  )

  it.live("the same create twenty times at once makes one record, and all get the same answer", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      const answers = yield* Effect.all(
        Array.from({ length: 20 }, () => on(node)(createSandbox(requestOf(1)))),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(answers.map(({ endpointToken }) => endpointToken)).size, 1)
      assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
    })
  )

  it.live("RG-DEL-10 an id with a tombstone is refused for ever, over a restart too", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      yield* on(node)(createSandbox(requestOf(1)))
      yield* on(node)(deleteSandbox(sandboxOf(1), { reason: "user", actor: "tester" }))
      const refusal = yield* Effect.flip(on(node)(createSandbox(requestOf(1))))
      assert.deepInclude(refusal, { _tag: "SandboxIdTaken", by: "tombstone" })
      assert.strictEqual((yield* node.registry.charges).sandboxes, 0)
    })
  )

  it.live("a sandbox that is being deleted is not answered as created", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      yield* on(node)(createSandbox(requestOf(1)))
      failGuest(node.guests, "end")
      yield* Effect.flip(on(node)(deleteSandbox(sandboxOf(1), { reason: "user", actor: "tester" })))
      const refusal = yield* Effect.flip(on(node)(createSandbox(requestOf(1))))
      assert.strictEqual(refusal._tag, "SandboxStateRefused")
    })
  )

  it.live("an invalid request, a missing image and a full node leave no record and no charge", () =>
    Effect.gen(function* () {
      const refused = new GuestSpecRefused({ sandbox: sandboxOf(2), field: "image", why: "it is not there" })
      const node = yield* freshNode({
        capacity: { sandboxes: 9, cpuMillis: 99, memoryBytes: 1e9 },
        supervisor: (real) => ({
          ...real,
          validate: ({ image }) => (image === "host" ? Effect.void : Effect.fail(refused))
        })
      })
      for (const [fields, tag] of [
        [{ cpuMillis: 0 }, "InvalidSandboxRequest"],
        [{ image: "/missing", cpuMillis: 1 }, "GuestSpecRefused"],
        [{}, "CapacityExceeded"]
      ] as const) {
        const refusal = yield* Effect.flip(on(node)(createSandbox(requestOf(2, fields))))
        assert.strictEqual(refusal._tag, tag)
      }
      assert.deepStrictEqual(node.disk.calls, [])
      assert.strictEqual((yield* node.registry.charges).sandboxes, 0)
    })
  )

  it.live("a create that could not be written leaves nothing and can be asked again", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      failNext(node.disk, "create", "before", "ENOSPC")
      assert.strictEqual(
        (yield* Effect.flip(on(node)(createSandbox(requestOf(1)))))._tag,
        "RegistryWriteFailed"
      )
      yield* on(node)(createSandbox(requestOf(1)))
    })
  )

  it.live("a caller who hangs up does not cancel a create", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      const [reached, open] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const observer = {
        before: () => Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(open)),
        after: () => Effect.void
      }
      const caller = yield* Effect.forkChild(
        on(node)(createSandbox(requestOf(1))).pipe(Effect.provideService(StepObserver, observer))
      )
      yield* Deferred.await(reached)
      const leaving = yield* Effect.forkChild(Fiber.interrupt(caller))
      yield* Effect.yieldNow
      yield* Deferred.succeed(open, undefined)
      yield* Fiber.join(leaving)
      assert.isTrue((yield* node.registry.inventory).has(sandboxOf(1)))
    })
  )
})
