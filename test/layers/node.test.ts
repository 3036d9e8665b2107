/**
 * The daemon of a node alone, as a process with real guests and no database: killed between the intent and the answer
 * of a creation and of a deletion, asked again with the same key, and stopped by a signal.
 */
import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { RequestKey, type SandboxId } from "../../src/domain/Identity.ts"
import { isApiError } from "../../src/infra/http/ApiErrors.ts"
import type { NodeClient } from "../../src/infra/http/node/nodeClient.ts"
import type { SandboxCreation } from "../../src/infra/http/node/NodeApi.ts"
import { socketPathOf } from "../../src/layers/config.ts"
import { makeHome, makePlace, awaitReady, startDaemon } from "../support/daemonProcess.ts"
import type { KillPoint } from "../support/killingObserver.ts"
import { ask } from "../infra/http/node/nodeServer.ts"
import { outcomeOf } from "../support/executionOutcome.ts"
import { awaitNode, nodeClientOf, startNode } from "../support/nodeProcess.ts"

type Client = NodeClient["Service"]

const testMillisMax = 180_000
const pollMillis = 25

const creation = (key: string, fields: Partial<SandboxCreation> = {}): SandboxCreation => ({
  requestId: RequestKey.make(key),
  resources: { cpu: "0.1", memory: "128Mi" },
  environment: { SECRET: "canary" },
  ...fields
})

const create = (client: Client, key: string, fields: Partial<SandboxCreation> = {}) =>
  client.sandboxes.create({ payload: creation(key, fields) })

const run = (client: Client, sandbox: SandboxId, script: string) =>
  Effect.flatMap(
    client.sandboxes.exec({
      params: { sandbox },
      payload: { argv: ["/bin/sh", "-c", script], environment: {} }
    }),
    outcomeOf
  )

const folderOf = (home: string, sandbox: string) => join(home, "state", "runtime", sandbox)
const identityOf = (home: string, sandbox: string) =>
  JSON.parse(readFileSync(join(folderOf(home, sandbox), "identity.json"), "utf8"))
const sandboxesOf = (home: string): ReadonlyArray<string> =>
  readdirSync(join(home, "state", "runtime")).filter((name) => name.startsWith("sb-"))

const codeOf = <A, E, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(call), (error) => (isApiError(error) ? error.code : String(error)))

const killPoint = (
  boundary: KillPoint["boundary"],
  program: string,
  step: string,
  occurrence = 1
): KillPoint => ({ boundary, program, step, occurrence })

const creating = [
  killPoint("before", "registry.createSandbox", "admit"),
  killPoint("after", "registry.createSandbox", "admit"),
  killPoint("after", "registry.startSandbox", "launch"),
  killPoint("after", "registry.startSandbox", "running")
]

/** Each daemon first finishes what the one before it has begun, and passes its own point on that way. */
const deleting = [
  killPoint("after", "registry.deleteSandbox", "intent"),
  killPoint("after", "reclamation.reclaimSandbox", "tombstone", 2),
  killPoint("after", "registry.deleteSandbox", "record", 2)
]

describe("node", () => {
  it.live(
    "RG-RUN-03 a creation whose daemon is killed between intent and answer is one sandbox for its key, with one guest",
    () =>
      Effect.gen(function* () {
        const home = yield* makeHome
        for (const killAt of creating) {
          const key = `${killAt.boundary}-${killAt.step}`
          yield* Effect.scoped(
            Effect.gen(function* () {
              const daemon = yield* startNode(home, killAt)
              const client = yield* awaitNode(home, daemon)
              yield* Effect.exit(create(client, key))
              assert.strictEqual(yield* daemon.ended, "SIGKILL", `${key}\n${daemon.output()}`)
            })
          )
        }
        const client = yield* awaitNode(home, yield* startNode(home))
        for (const { boundary, step } of creating) {
          const key = `${boundary}-${step}`
          const made = yield* create(client, key)
          assert.deepStrictEqual([made.requestId, made.status], [key, "Running"])
          assert.deepStrictEqual(yield* create(client, key), made)
          const refused = codeOf(create(client, key, { environment: { SECRET: "other" } }))
          assert.strictEqual(yield* refused, "IDEMPOTENCY_CONFLICT")
          assert.strictEqual((yield* run(client, made.sandbox, "echo $SECRET")).text, "canary", key)
        }
        assert.lengthOf(yield* client.sandboxes.list({ query: {} }), creating.length)
        assert.lengthOf(sandboxesOf(home), creating.length, "no creation has made a second sandbox")
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "RG-DEL-05 BX-02 a deletion whose daemon is killed on its way is finished by the next, answers its proof, and can be explained",
    () =>
      Effect.gen(function* () {
        const home = yield* makeHome
        const deleted: Array<SandboxId> = []
        for (const killAt of deleting) {
          yield* Effect.scoped(
            Effect.gen(function* () {
              const daemon = yield* startNode(home, killAt)
              const client = yield* awaitNode(home, daemon)
              const { sandbox } = yield* create(client, `k-${deleted.length}`)
              deleted.push(sandbox)
              yield* Effect.exit(client.sandboxes.delete({ params: { sandbox } }))
              assert.strictEqual(yield* daemon.ended, "SIGKILL", `${killAt.step}\n${daemon.output()}`)
            })
          )
        }
        const client = yield* awaitNode(home, yield* startNode(home))
        for (const [index, sandbox] of deleted.entries()) {
          const params = { sandbox }
          const proof = yield* client.sandboxes.delete({ params })
          assert.deepInclude(proof, { state: "deleted", evidence: "GroupsEmpty" })
          assert.deepStrictEqual(yield* client.sandboxes.delete({ params }), proof)
          assert.deepStrictEqual(readdirSync(folderOf(home, sandbox)).toSorted(), [
            "owner.lock",
            "tombstone.json"
          ])
          const { steps } = yield* client.sandboxes.why({ params })
          assert.deepStrictEqual(
            steps.map(({ step }) => step).filter((step) => step !== "state"),
            ["request", "admission", "intention", "guest", "deletion", "absence", "tombstone", "reservation"]
          )
          assert.strictEqual(yield* codeOf(create(client, `k-${index}`)), "INVALID_SANDBOX_STATE")
        }
        assert.deepStrictEqual(readdirSync(join(home, "state", "records")), ["meta.json"])
        assert.strictEqual((yield* client.node.readiness()).charges?.used.sandboxes, 0)
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "RG-RUN-02 guests outlive a node's daemon and are adopted; a signal ends it with 0, and its socket goes",
    () =>
      Effect.gen(function* () {
        const home = yield* makeHome
        const before = yield* Effect.scoped(
          Effect.gen(function* () {
            const daemon = yield* startNode(home)
            const client = yield* awaitNode(home, daemon)
            assert.strictEqual(lstatSync(socketPathOf(home)).mode & 0o777, 0o600)
            const { sandbox } = yield* create(client, "k")
            yield* run(client, sandbox, "echo kept > file")
            daemon.process.kill("SIGTERM")
            assert.strictEqual(yield* daemon.ended, 0, daemon.output())
            assert.isFalse(existsSync(socketPathOf(home)))
            assert.notInclude(daemon.output(), "canary")
            return { sandbox, identity: identityOf(home, sandbox) }
          })
        )
        const client = yield* awaitNode(home, yield* startNode(home))
        const params = { sandbox: before.sandbox }
        assert.isTrue((yield* client.sandboxes.inspect({ params })).ready)
        assert.deepStrictEqual(identityOf(home, before.sandbox), before.identity)
        assert.deepStrictEqual(yield* run(client, before.sandbox, "cat file"), { exitCode: 0, text: "kept" })
        const { steps } = yield* client.sandboxes.why({ params })
        const { bootId, init } = before.identity
        assert.deepInclude(steps.find(({ step }) => step === "guest")?.facts, {
          supervisor: before.identity.supervisor,
          pid: init.pid,
          startTicks: init.startTicks,
          bootId
        })
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "RG figures a caller who hangs up cancels neither a creation nor a deletion, with real guests",
    () =>
      Effect.gen(function* () {
        const home = yield* makeHome
        const client = yield* awaitNode(home, yield* startNode(home))
        const admitted = client.sandboxes
          .list({ query: {} })
          .pipe(
            Effect.repeat({ until: (all) => all.length === 1, schedule: Schedule.spaced(1) }),
            Effect.timeout(testMillisMax / 4)
          )
        const caller = yield* Effect.forkChild(create(yield* nodeClientOf(home), "k"))
        const [seen] = yield* admitted
        yield* Fiber.interrupt(caller)
        const made = yield* create(client, "k")
        assert.deepStrictEqual([made.sandbox, made.status], [seen!.sandbox, "Running"])
        const params = { sandbox: made.sandbox }
        const deleter = yield* Effect.forkChild((yield* nodeClientOf(home)).sandboxes.delete({ params }))
        yield* client.sandboxes.list({ query: {} }).pipe(
          Effect.repeat({
            until: (all) => all.every(({ deleting: isDeleting }) => isDeleting),
            schedule: Schedule.spaced(1)
          }),
          Effect.timeout(testMillisMax / 4)
        )
        yield* Fiber.interrupt(deleter)
        yield* client.sandboxes
          .list({ query: {} })
          .pipe(
            Effect.repeat({ until: (all) => all.length === 0, schedule: Schedule.spaced(pollMillis) }),
            Effect.timeout(testMillisMax / 4)
          )
        assert.isTrue(existsSync(join(folderOf(home, made.sandbox), "tombstone.json")))
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "FC-05 the node alone tells its sweeps: in its readiness, and as a gauge",
    () =>
      Effect.gen(function* () {
        const home = yield* makeHome
        const client = yield* awaitNode(home, yield* startNode(home))
        const { sweeps } = yield* client.node.readiness()
        assert.includeMembers(
          sweeps.map(({ failed, sweep }) => `${sweep}: ${failed}`),
          ["sandboxes: 0", "expired sandboxes: 0"]
        )
        const metrics = yield* ask(socketPathOf(home), "GET", "/metrics")
        assert.strictEqual(metrics.status, 200)
        assert.match(metrics.text, /^holdfast_sweep_failed\{sweep="sandboxes"\} 0/m)
        assert.match(metrics.text, /^holdfast_sweep_failed\{sweep="expired sandboxes"\} 0/m)
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "RG-LAY-03 the whole daemon serves the node's API at the same socket, and no node's daemon comes up beside it",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        yield* awaitReady(place, yield* startDaemon(place))
        const client = yield* nodeClientOf(place.home)
        assert.strictEqual((yield* client.node.readiness()).state, "ready")
        const { sandbox } = yield* create(client, "k")
        assert.strictEqual((yield* run(client, sandbox, "echo $((6 * 7))")).text, "42")
        const second = yield* startNode(place.home)
        assert.strictEqual(yield* second.ended, 1)
        assert.include(second.output(), "state_directory_held")
        assert.deepInclude(yield* client.sandboxes.delete({ params: { sandbox } }), { state: "deleted" })
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
