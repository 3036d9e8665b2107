/** What the node's API does beyond its refusals: what it answers, and what it hides. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { sandboxListMax } from "../../../../src/domain/Bounds.ts"
import { ExecutionEvent } from "../../../../src/domain/guests/GuestSpec.ts"
import type { SandboxId } from "../../../../src/domain/Identity.ts"
import { countCalls, failNext as failGuest } from "../../../../src/infra/guests/scriptedState.ts"
import { failNext, recordOf } from "../../../domain/registry/fixture.ts"
import { freshNode, openNode } from "../../../domain/registry/guestFixture.ts"
import { ask, creation, type ServedNode, serveFresh, serveNode } from "./nodeServer.ts"

const create = ({ client }: ServedNode, key = "k") => client.sandboxes.create({ payload: creation(key) })

describe("node/handlers", () => {
  it.live("a created sandbox is answered running, with the names of its environment, and found again", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const payload = creation("k", {
        environment: { B: "canary", A: "canary" },
        metadata: { team: "x" },
        argv: ["/bin/true"],
        lifeSeconds: 60
      })
      const made = yield* served.client.sandboxes.create({ payload })
      assert.deepInclude(made, {
        requestId: "k",
        status: "Running",
        image: "host",
        argv: ["/bin/true"],
        environment: ["A", "B"],
        metadata: { team: "x" },
        cpuMillis: 100,
        memoryBytes: 128 * 1024 ** 2,
        deletion: null
      })
      assert.strictEqual(made.expiresAtMillis - made.createdAtMillis, 60_000)
      const params = { sandbox: made.sandbox }
      assert.deepInclude(yield* served.client.sandboxes.inspect({ params }), {
        ready: true,
        notReadyBecause: null
      })
    })
  )

  it.live("a command is streamed: started, its output, its exit; what fails later is the last line", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const { sandbox } = yield* create(served)
      served.node.guests.commandScript = () =>
        Effect.succeed([
          ExecutionEvent.cases.Output.make({ stream: "stdout", bytes: new Uint8Array([0, 255]) }),
          ExecutionEvent.cases.Exited.make({ exitCode: 7, ended: "exited" })
        ])
      const run = served.client.sandboxes
        .exec({ params: { sandbox }, payload: { argv: ["x"], environment: {} } })
        .pipe(Effect.flatMap(Stream.runCollect))
      const lines = yield* run
      assert.deepStrictEqual(
        lines.map(({ type }) => type),
        ["started", "output", "exited"]
      )
      failGuest(served.node.guests, "execute")
      assert.deepInclude((yield* run).at(-1), { type: "failed", code: "RUNTIME_UNAVAILABLE" })
    })
  )

  it.live(
    "RG-DEL-01 a deletion answers its proof, the same one each time; one in the way of it is told",
    () =>
      Effect.gen(function* () {
        const served = yield* serveFresh()
        const { sandbox } = yield* create(served)
        const remove = served.client.sandboxes.delete({ params: { sandbox } })
        failGuest(served.node.guests, "end")
        const pending = yield* remove
        assert.deepInclude(pending, { state: "pending", proof: null })
        assert.include(pending.inTheWay, "end failed")
        assert.deepInclude(yield* served.client.sandboxes.inspect({ params: { sandbox } }), {
          deleting: true,
          ready: false
        })
        const deleted = yield* remove
        assert.deepInclude(deleted, { state: "deleted", inTheWay: null, evidence: "GroupsEmpty" })
        assert.deepStrictEqual(yield* remove, deleted)
        assert.deepStrictEqual(yield* served.client.sandboxes.list({ query: {} }), [])
      })
  )

  it.live("a sandbox is paused, resumed, stopped and renewed, and says so", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const { sandbox } = yield* create(served)
      const { sandboxes } = served.client
      const params = { sandbox }
      assert.strictEqual((yield* sandboxes.pause({ params })).status, "Paused")
      assert.isFalse((yield* sandboxes.inspect({ params })).ready)
      assert.strictEqual((yield* sandboxes.resume({ params })).status, "Running")
      const renewed = yield* sandboxes.renew({ params, payload: { lifeSeconds: 86_400 } })
      assert.isAtLeast(renewed.expiresAtMillis - renewed.createdAtMillis, 86_400_000)
      const stopped = yield* sandboxes.stop({ params, payload: { graceMillis: 0 } })
      assert.strictEqual(stopped.status, "Terminated")
      const { steps } = yield* sandboxes.why({ params })
      assert.deepStrictEqual(
        steps.flatMap(({ facts, step }) => (step === "state" ? [facts["status"]] : [])),
        ["Pending", "Running", "Pausing", "Paused", "Resuming", "Running", "Stopping", "Terminated"]
      )
      assert.deepInclude(steps[0], { step: "request", actor: "uid:7" })
    })
  )

  it.live("RG-RUN-01 a port of a running sandbox is answered as a socket, and of no other state", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const { sandbox } = yield* create(served)
      const params = { sandbox }
      const look = served.client.sandboxes.endpoint({ params, payload: { port: 65_535 } })
      const { path, ...rest } = yield* look
      assert.deepStrictEqual(rest, { sandbox, port: 65_535 })
      assert.isNotEmpty(path)
      yield* served.client.sandboxes.pause({ params })
      const refusal = yield* Effect.flip(look)
      assert.strictEqual("code" in refusal ? refusal.code : "", "INVALID_SANDBOX_STATE")
    })
  )

  it.live("a signal reaches the main command, of a running sandbox and of no other", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const payload = creation("k", { argv: ["/bin/sleep", "60"] })
      const { sandbox } = yield* served.client.sandboxes.create({ payload })
      const send = (to: SandboxId) =>
        served.client.sandboxes.signal({ params: { sandbox: to }, payload: { signal: "TERM" } })
      const codeOf = (to: SandboxId) =>
        Effect.map(Effect.flip(send(to)), (refusal) => ("code" in refusal ? refusal.code : ""))
      assert.strictEqual((yield* send(sandbox)).sandbox, sandbox)
      assert.strictEqual(countCalls(served.node.guests, "signal", sandbox), 1)
      yield* served.client.sandboxes.pause({ params: { sandbox } })
      assert.strictEqual(yield* codeOf(sandbox), "INVALID_SANDBOX_STATE")
      const path = `/node/sandboxes/${sandbox}/signal`
      const refused = yield* ask(served.socketPath, "POST", path, { signal: "WALK" })
      assert.deepStrictEqual([refused.status, refused.body.code], [400, "INVALID_REQUEST"])
      assert.include(refused.body.message, "signal")
    })
  )

  it.live("a listing goes on after the id that it is given, in order, until an empty page", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh({
        capacity: { sandboxes: 2_000, cpuMillis: 1e9, memoryBytes: 1024 ** 5 }
      })
      const count = sandboxListMax + 2
      yield* Effect.forEach(
        Array.from({ length: count }, (_, index) => recordOf(index + 1)),
        (record) => served.node.registry.admit(record),
        { concurrency: 64 }
      )
      const page = (after?: SandboxId) =>
        served.client.sandboxes.list({ query: after === undefined ? {} : { after } })
      const first = yield* page()
      assert.lengthOf(first, sandboxListMax)
      const second = yield* page(first.at(-1)?.sandbox)
      assert.lengthOf(second, 2)
      assert.deepStrictEqual(yield* page(second.at(-1)?.sandbox), [])
      const ids = [...first, ...second].map(({ sandbox }) => sandbox)
      assert.deepStrictEqual(ids, ids.toSorted())
    })
  )

  it.live("readiness tells apart who is live, who is ready, and whose storage has failed", () =>
    Effect.gen(function* () {
      const served = yield* serveFresh()
      const ready = served.client.node.readiness()
      assert.deepInclude(yield* ready, { live: true, state: "starting" })
      yield* served.settle
      assert.deepInclude(yield* ready, { live: true, state: "ready", why: null })
      yield* create(served)
      assert.strictEqual((yield* ready).charges?.used.sandboxes, 1)
      failNext(served.node.disk, "sync")
      yield* Effect.flip(create(served, "other"))
      assert.deepInclude(yield* ready, { live: true, state: "storage_failed", charges: null })
    })
  )

  it.live(
    "FC-05 a sweep of the node that did nothing of what it attempted is told, and none that is not its own",
    () =>
      Effect.gen(function* () {
        const served = yield* serveFresh()
        yield* served.settle
        const ready = served.client.node.readiness()
        const pass = { attempted: 2, done: 1, failed: 1, why: null }
        yield* served.note({ sweep: "leases", attempted: 1, done: 0, failed: 1, why: "the database is away" })
        yield* served.note({ sweep: "sandboxes", ...pass })
        const partly = yield* ready
        assert.deepInclude(partly, { state: "ready", why: null })
        assert.deepStrictEqual(
          partly.sweeps.map(({ sweep, ...count }) => [sweep, { ...count, atMillis: 0 }]),
          [["sandboxes", { ...pass, atMillis: 0 }]]
        )
        yield* served.note({ sweep: "expired sandboxes", attempted: 2, done: 0, failed: 2, why: null })
        assert.deepInclude(yield* ready, {
          live: true,
          state: "degraded",
          why: "the sweep of expired sandboxes: attempted 2, done 0, failed 2"
        })
      })
  )

  it.live("RG-REC-02 no value of an environment and no token is in any answer, log or span", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const logger = Logger.make((options) => void seen.push(JSON.stringify(options.message)))
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      yield* Effect.gen(function* () {
        const served = yield* serveFresh()
        const { socketPath } = served
        const payload = creation("k", { environment: { SECRET: "canary" } })
        const answered = function* (method: string, path: string, body?: unknown) {
          seen.push((yield* ask(socketPath, method, `/node/sandboxes${path}`, body)).text)
        }
        yield* answered("POST", "", payload)
        yield* answered("POST", "", creation("k", { environment: { SECRET: "canary2" } }))
        yield* answered("POST", "", creation("l", { environment: { SECRET: "canary\0" } }))
        yield* answered("POST", "", { ...payload, environment: { SECRET: ["canary"] } })
        failGuest(served.node.guests, "start")
        yield* answered("POST", "", creation("m", { environment: { SECRET: "canary" } }))
        const [record] = (yield* served.node.registry.inventory).values()
        for (const path of ["", `/${record!.id}`, `/${record!.id}/why`]) yield* answered("GET", path)
        yield* answered("POST", `/${record!.id}/pause`)
        yield* answered("DELETE", `/${record!.id}`)
        yield* answered("GET", `/${record!.id}/why`)
        const text = [
          ...seen,
          ...spans.map(({ attributes, events, name }) => JSON.stringify([name, [...attributes], events]))
        ].join("\n")
        assert.notInclude(text, "canary")
        assert.notInclude(text, record!.endpointToken)
        assert.include(text, "SECRET", "what was looked at is what was answered")
        assert.isAbove(spans.length, 10)
      }).pipe(Effect.withTracer(tracer), Effect.provide(Logger.layer([logger])))
    })
  )

  it.live("after a restart of the daemon the same key answers the same sandbox", () =>
    Effect.gen(function* () {
      const node = yield* freshNode()
      const before = yield* Effect.scoped(Effect.flatMap(serveNode(node), create))
      const next = yield* openNode(node.directory, node.guests)
      const after = yield* Effect.flatMap(serveNode(next), create)
      assert.deepStrictEqual(after, before)
      assert.strictEqual(countCalls(node.guests, "start"), 1)
    })
  )
})
