/**
 * The daemon as a process, with real guests: killed at every step of every operation and followed by another one,
 * which finishes what was begun, adopts what runs, and leaves nothing behind.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { RequestKey } from "../../src/domain/Identity.ts"
import type { ApiClient } from "../../src/infra/http/apiClient.ts"
import type { OperationView } from "../../src/infra/http/Views.ts"
import { awaitReady, makePlace, type Place, startDaemon } from "../support/daemonProcess.ts"
import type { KillPoint } from "../support/killingObserver.ts"
import { outcomeOf } from "../support/executionOutcome.ts"

type Client = ApiClient["Service"]

const testMillisMax = 180_000
const pollMillis = 25

const settled = (client: Client, operation: OperationView) =>
  client.operations.get({ params: { id: operation.id } }).pipe(
    Effect.repeat({
      until: ({ state }) => state !== "queued" && state !== "claimed",
      schedule: Schedule.spaced(pollMillis)
    }),
    Effect.timeout(testMillisMax / 4)
  )

const request = (client: Client, project: string, action: "provision" | "start" | "stop") =>
  client.operations.request({
    params: { project },
    payload: {
      action,
      requestId: RequestKey.make(`test-${action}-${project}`),
      ...(action === "provision" ? { parameters: { cpuMillis: 100, memoryMebibytes: 128 } } : {})
    }
  })

const run = (client: Client, project: string, script: string) =>
  Effect.flatMap(
    client.executions.run({
      params: { project },
      payload: { argv: ["/bin/sh", "-c", script], environment: {} }
    }),
    outcomeOf
  )

const identityOf = (place: Place, sandbox: string) =>
  JSON.parse(readFileSync(join(place.home, "state", "runtime", sandbox, "identity.json"), "utf8"))

const sandboxesOf = (place: Place): ReadonlyArray<string> =>
  readdirSync(join(place.home, "state", "runtime")).filter((name) => name.startsWith("sb-"))

const status = (client: Client, project: string) => client.projects.status({ params: { project } })

const deletion = (client: Client, project: string) =>
  Effect.gen(function* () {
    const { paths } = yield* client.projects.previewDeletion({ params: { project } })
    return yield* client.projects.delete({ params: { project }, payload: { confirmedPaths: paths } })
  })

/**
 * Before the first act, and behind each act while its outcome is not yet durable: the two ways in which a boundary
 * can look on disk. That every boundary is resumed alike whatever the steps do is shown in operations/execution.test.ts.
 */
const boundaries = (
  program: string,
  steps: ReadonlyArray<string>
): ReadonlyArray<Omit<KillPoint, "occurrence">> => [
  { boundary: "before", program, step: steps[0] ?? "" },
  ...steps.map((step) => ({ boundary: "after", program, step }) as const)
]

const nameOf = ({ boundary, step }: Pick<KillPoint, "boundary" | "step">): string => `${boundary}-${step}`

/** Which occurrence of its boundary a point is when an operation that died at `earlier` is resumed before it. */
const occurrenceAfter = (
  steps: ReadonlyArray<string>,
  point: Omit<KillPoint, "occurrence">,
  earlier: Omit<KillPoint, "occurrence"> | undefined
): KillPoint => {
  const repeats = earlier?.boundary === point.boundary || point.boundary === "after"
  const passed = earlier !== undefined && repeats && steps.indexOf(point.step) >= steps.indexOf(earlier.step)
  return { ...point, occurrence: passed ? 2 : 1 }
}

const startSteps = ["image", "storage", "guest", "boot", "ready", "initialise"]
const deleteSteps = ["stop", "guests", "storage", "records"]

describe("daemon", () => {
  it.live(
    "SP-OPS-03 a provision whose daemon is killed at any step boundary is finished by the next one, with one guest",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        let earlier: Omit<KillPoint, "occurrence"> | undefined
        const check = (client: Client) =>
          Effect.gen(function* () {
            if (earlier === undefined) return
            const project = nameOf(earlier)
            const done = yield* settled(client, yield* request(client, project, "provision"))
            assert.strictEqual(done.state, "succeeded", `${project}: ${done.error?.message ?? ""}`)
            const { executions, runtime } = yield* status(client, project)
            assert.strictEqual(runtime?.observed, "running", project)
            assert.deepStrictEqual(executions, [])
            assert.strictEqual((yield* run(client, project, "echo $((6 * 7))")).text, "42")
          })
        const points = boundaries("provision", startSteps)
        for (const point of points) {
          const killAt = occurrenceAfter(startSteps, point, earlier)
          yield* Effect.scoped(
            Effect.gen(function* () {
              const daemon = yield* startDaemon(place, { killAt })
              const client = yield* awaitReady(place, daemon)
              yield* check(client)
              yield* client.projects.create({ payload: { name: nameOf(point) } })
              // The daemon may die before it answers: whoever asks again is told.
              yield* request(client, nameOf(point), "provision").pipe(
                Effect.catchTag("HttpClientError", () => Effect.void)
              )
              assert.strictEqual(yield* daemon.ended, "SIGKILL", `${nameOf(point)}\n${daemon.output()}`)
              earlier = point
            })
          )
        }
        const last = yield* startDaemon(place)
        const client = yield* awaitReady(place, last)
        yield* check(client)
        assert.strictEqual(sandboxesOf(place).length, points.length, "no provision has made a second sandbox")
        for (const point of points) yield* deletion(client, nameOf(point))
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "SP-DEL-11 SP-DEL-10 a deletion whose daemon is killed at any step boundary is finished by the next one, and nothing is left",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const points = boundaries("delete", deleteSteps)
        const gone = (client: Client, project: string) =>
          client.projects.list({ query: {} }).pipe(
            Effect.repeat({
              until: (projects) => projects.every(({ name }) => name !== project),
              schedule: Schedule.spaced(pollMillis)
            }),
            Effect.timeout(testMillisMax / 4)
          )
        let earlier: Omit<KillPoint, "occurrence"> | undefined
        for (const point of points) {
          const project = nameOf(point)
          const killAt = occurrenceAfter(deleteSteps, point, earlier)
          yield* Effect.scoped(
            Effect.gen(function* () {
              const daemon = yield* startDaemon(place, { killAt })
              const client = yield* awaitReady(place, daemon)
              if (earlier !== undefined) yield* gone(client, nameOf(earlier))
              yield* client.projects.create({ payload: { name: project } })
              yield* settled(client, yield* request(client, project, "provision"))
              yield* run(client, project, "echo kept > file; setsid sleep 600 >/dev/null 2>&1 </dev/null &")
              yield* Effect.exit(deletion(client, project))
              assert.strictEqual(yield* daemon.ended, "SIGKILL", `${project}\n${daemon.output()}`)
              earlier = point
            })
          )
        }
        const last = yield* startDaemon(place)
        const client = yield* awaitReady(place, last)
        if (earlier !== undefined) yield* gone(client, nameOf(earlier))
        const state = join(place.home, "state")
        assert.deepStrictEqual(readdirSync(join(state, "disks")), [])
        assert.deepStrictEqual(readdirSync(join(state, "records")), ["meta.json"])
        for (const sandbox of sandboxesOf(place)) {
          assert.isTrue(existsSync(join(state, "runtime", sandbox, "tombstone.json")), sandbox)
        }
        assert.deepStrictEqual(yield* client.projects.list({ query: {} }), [])
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "RG-RUN-02 SP-OPS-07 a guest outlives its daemon and is adopted with the same identity, stopped and started again with its files",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const counting = `setsid sh -c 'i=0; while :; do i=$((i + 1)); echo $i > .n; mv .n counter; sleep 0.05; done' >/dev/null 2>&1 </dev/null &`
        const before = yield* Effect.scoped(
          Effect.gen(function* () {
            const client = yield* awaitReady(place, yield* startDaemon(place))
            yield* client.projects.create({ payload: { name: "web" } })
            yield* settled(client, yield* request(client, "web", "provision"))
            yield* run(client, "web", counting)
            const { runtime } = yield* status(client, "web")
            const identity = identityOf(place, runtime?.sandbox ?? "")
            const counter = yield* run(client, "web", "cat counter").pipe(
              Effect.repeat({ until: ({ exitCode }) => exitCode === 0, times: 200 })
            )
            return { identity, counter: Number(counter.text), generation: runtime?.generation }
          })
        )
        const client = yield* awaitReady(place, yield* startDaemon(place))
        const { runtime } = yield* status(client, "web")
        assert.deepStrictEqual(identityOf(place, runtime?.sandbox ?? ""), before.identity)
        assert.strictEqual(runtime?.generation, before.generation)
        assert.strictEqual(runtime?.carriedBy, before.identity.supervisor, "the status says who carries it")
        const counter = yield* run(client, "web", "cat counter")
        assert.isAbove(Number(counter.text), before.counter)
        assert.strictEqual((yield* settled(client, yield* request(client, "web", "stop"))).state, "succeeded")
        assert.strictEqual((yield* status(client, "web")).runtime?.observed, "stopped")
        assert.strictEqual(
          (yield* settled(client, yield* request(client, "web", "start"))).state,
          "succeeded"
        )
        assert.strictEqual(
          (yield* run(client, "web", "cat counter")).exitCode,
          0,
          "the disk outlives the guest"
        )
        assert.notDeepEqual(identityOf(place, runtime?.sandbox ?? "").init, before.identity.init)
        yield* deletion(client, "web")
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
