import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as TestClock from "effect/testing/TestClock"
import { RequestKey } from "../../../src/domain/Identity.ts"
import { stopSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { createRequested, type KeyedRequest } from "../../../src/domain/registry/requestedCreation.ts"
import { type SandboxRequest, requestText } from "../../../src/domain/registry/sandboxRequest.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { countCalls, endByItself, failNext } from "../../../src/infra/guests/scriptedState.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { sandboxOf } from "./fixture.ts"
import { freshNode, on, openNode, requestOf, type TestNode } from "./guestFixture.ts"

const one = sandboxOf(1)
const wish = { reason: "user", actor: "tester" } as const

/** Stands for the digest: a different text has a different one. */
const hashOf = (text: string): string =>
  [...text]
    .reduce((sum, letter) => (sum * 31n + BigInt(letter.codePointAt(0)!)) % 2n ** 256n, 7n)
    .toString(16)
    .padStart(64, "0")

const keyed = (fields: Partial<SandboxRequest> = {}): KeyedRequest => {
  const request = requestOf(1, fields)
  return {
    ...request,
    origin: {
      key: RequestKey.make("k-1"),
      hash: hashOf(requestText(request)),
      actor: "tester",
      startedAtMillis: null
    }
  }
}

const create = (node: TestNode, fields: Partial<SandboxRequest> = {}) =>
  on(node)(createRequested(keyed(fields)))

/** The node after a restart of its daemon. */
const restarted = (node: TestNode) => openNode(node.directory, node.guests)

describe("registry/requestedCreation", () => {
  it.live(
    "RG-REC-01 a request is recorded with key, hash and actor, started, and answered once it answers",
    () =>
      Effect.gen(function* () {
        const node = yield* freshNode()
        const record = yield* create(node)
        assert.strictEqual(record.status, "Running")
        const { startedAtMillis, ...origin } = record.origin!
        const { startedAtMillis: _, ...asked } = keyed().origin
        assert.deepStrictEqual(origin, asked)
        assert.isNotNull(startedAtMillis)
        assert.strictEqual(countCalls(node.guests, "ping"), 1)
      })
  )

  it.live("the same request again is the same sandbox and starts nothing, before and after a restart", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      const first = yield* create(node)
      const again = yield* create(node)
      const later = yield* create(yield* restarted(node))
      assert.deepStrictEqual([again.id, later.id], [first.id, first.id])
      assert.deepStrictEqual([again.attemptId, later.attemptId], [first.attemptId, first.attemptId])
      assert.strictEqual(countCalls(node.guests, "start"), 1)
    })
  )

  it.live("twenty at once under one key make one sandbox and one guest", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      const answers = yield* Effect.all(
        Array.from({ length: 20 }, () => create(node)),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(answers.map(({ attemptId }) => attemptId)).size, 1)
      assert.strictEqual(countCalls(node.guests, "start"), 1)
      assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
    })
  )

  it.live.each([
    ["another image", { image: "/other" }],
    ["another argument", { argv: ["/bin/true"] }],
    ["another name in the environment", { environment: { TOKEN: "s3cret", B: "1" } }],
    ["another value in the environment", { environment: { TOKEN: "other", A: "1" } }],
    ["other metadata", { metadata: { a: "b" } }],
    ["more memory", { memoryBytes: 2_048 }],
    ["more cpu", { cpuMillis: 101 }],
    ["more processes", { processesMax: 65 }],
    ["another life", { lifeSeconds: 601 }]
  ] as const)("the key is refused for another request: %s", ([, fields]) =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      yield* create(node)
      assert.strictEqual((yield* Effect.flip(create(node, fields)))._tag, "IdempotencyConflict")
      assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
    })
  )

  it.live("of two requests at once under one key the second is a conflict, whatever they differ in", () =>
    Effect.gen(function* () {
      for (const fields of [{ lifeSeconds: 601 }, { environment: { TOKEN: "other", A: "1" } }]) {
        const node = yield* freshNode()
        const outcomes = yield* Effect.all([Effect.exit(create(node)), Effect.exit(create(node, fields))], {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(outcomes.map(({ _tag }) => _tag).toSorted(), ["Failure", "Success"])
        assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
      }
    })
  )

  it.live("no later change of a record can take it to another request", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      yield* create(node)
      for (const change of [{ key: RequestKey.make("k-2") }, { hash: "0".repeat(64) }]) {
        const changed = node.registry.update(one, (record) =>
          Result.succeed(new SandboxRecord({ ...record, origin: { ...record.origin!, ...change } }))
        )
        assert.isTrue(Exit.hasDies(yield* Effect.exit(changed)))
      }
    })
  )

  it.live("the order in which pairs are named does not make another request", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      const first = yield* create(node, { environment: { A: "1", B: "2" }, metadata: { x: "1", y: "2" } })
      const again = yield* create(node, { environment: { B: "2", A: "1" }, metadata: { y: "2", x: "1" } })
      assert.strictEqual(again.attemptId, first.attemptId)
    })
  )

  it.live("a guest that has ended meanwhile is not started again by a repeated request", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      yield* create(node)
      endByItself(node.guests, one, 3)
      yield* on(node)(reconcileSandboxes)
      const again = yield* create(node)
      assert.deepStrictEqual([again.status, again.statusReason], ["Failed", "ended with exit code 3"])
      yield* on(node)(stopSandbox(one, { graceMillis: 0 }))
      yield* create(node)
      assert.strictEqual(countCalls(node.guests, "start"), 1)
    })
  )

  it.live(
    "a failed start is told, keeps its charge, and the same request goes on with the same sandbox",
    () =>
      Effect.gen(function* () {
        const node = yield* freshNode()
        failNext(node.guests, "start")
        const refusal = yield* Effect.flip(create(node))
        assert.deepInclude(refusal, { _tag: "SandboxCreateFailed", sandbox: one })
        assert.strictEqual((yield* node.registry.get(one)).status, "Failed")
        assert.strictEqual((yield* node.registry.charges).sandboxes, 1)
        assert.strictEqual((yield* create(node)).status, "Running")
      })
  )

  it.live(
    "RG-RUN-01 a guest that does not answer is told, and the same request then answers it as it stands",
    () =>
      Effect.gen(function* () {
        const node = yield* freshNode()
        failNext(node.guests, "ping")
        assert.strictEqual((yield* Effect.flip(create(node)))._tag, "EndpointUnavailable")
        assert.strictEqual((yield* create(node)).status, "Running")
        assert.strictEqual(countCalls(node.guests, "start"), 1)
      })
  )

  it.effect("a request whose life was over before it could start is not started", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      failNext(node.guests, "start")
      yield* Effect.flip(create(node, { lifeSeconds: 60 }))
      yield* TestClock.adjust("60 seconds")
      assert.strictEqual((yield* Effect.flip(create(node, { lifeSeconds: 60 })))._tag, "SandboxExpired")
      assert.strictEqual(countCalls(node.guests, "start"), 1)
    })
  )

  it.live(
    "a deleted sandbox spends its key: the same request is refused as deleted, another as a conflict",
    () =>
      Effect.gen(function* () {
        const node = yield* freshNode()
        yield* create(node)
        failNext(node.guests, "end")
        yield* Effect.flip(on(node)(deleteSandbox(one, wish)))
        assert.deepInclude(yield* Effect.flip(create(node)), {
          _tag: "SandboxStateRefused",
          status: "being deleted"
        })
        assert.strictEqual((yield* Effect.flip(create(node, { cpuMillis: 7 })))._tag, "IdempotencyConflict")
        yield* on(node)(deleteSandbox(one, wish))
        const after = yield* restarted(node)
        assert.deepInclude(yield* Effect.flip(create(after)), {
          _tag: "SandboxStateRefused",
          status: "deleted"
        })
        assert.strictEqual((yield* Effect.flip(create(after, { cpuMillis: 7 })))._tag, "IdempotencyConflict")
        assert.strictEqual((yield* after.registry.charges).sandboxes, 0)
      })
  )

  it.live(
    "RG-RUN-03 a daemon that dies anywhere between intent and answer leaves a request that goes on as one",
    () =>
      Effect.gen(function* () {
        const steps = [
          ["before", "registry.createSandbox", "admit"],
          ["after", "registry.createSandbox", "admit"],
          ["after", "registry.startSandbox", "attempt"],
          ["after", "registry.startSandbox", "launch"],
          ["after", "registry.startSandbox", "running"]
        ] as const
        for (const [boundary, program, step] of steps) {
          const node = yield* freshNode()
          const look = (here: string) => (atProgram: string, atStep: string) =>
            here === boundary && atProgram === program && atStep === step ? Effect.interrupt : Effect.void
          yield* Effect.exit(
            Effect.provideService(create(node), StepObserver, {
              before: look("before"),
              after: look("after")
            })
          )
          const next = yield* restarted(node)
          yield* on(next)(reconcileSandboxes)
          const record = yield* create(next)
          assert.strictEqual(record.status, "Running", step)
          assert.strictEqual((yield* next.registry.inventory).size, 1, step)
          assert.strictEqual(node.guests.guests.size, 1, step)
          assert.strictEqual(node.guests.guests.get(one)?.identity.attemptId, record.attemptId, step)
        }
      })
  )
})
