/**
 * Snapshots and restores of a daemon as a process, with real guests: the copy is of one moment, the guest goes on, also
 * behind a daemon that was killed while it stood still, and a restore that was killed anywhere ends with one machine.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { RequestKey, SnapshotId } from "../../src/domain/Identity.ts"
import type { ApiClient } from "../../src/infra/http/apiClient.ts"
import type { OperationView } from "../../src/infra/http/Views.ts"
import { awaitReady, makePlace, type Place, startDaemon } from "../support/daemonProcess.ts"
import type { KillPoint } from "../support/killingObserver.ts"
import { outcomeOf } from "../support/executionOutcome.ts"

type Client = ApiClient["Service"]

const testMillisMax = 180_000
const pollMillis = 25
const project = "web"
const params = { project }
const snapshot = SnapshotId.make("..")

const settled = (client: Client, operation: OperationView) =>
  client.operations.get({ params: { id: operation.id } }).pipe(
    Effect.repeat({
      until: ({ state }) => state !== "queued" && state !== "claimed",
      schedule: Schedule.spaced(pollMillis)
    }),
    Effect.timeout(testMillisMax / 4)
  )

const succeeded = (client: Client, asked: Effect.Effect<OperationView, unknown>) =>
  Effect.gen(function* () {
    const done = yield* settled(client, yield* asked)
    assert.strictEqual(done.state, "succeeded", done.error?.message ?? "")
    return done
  })

let requests = 0
const payload = () => ({ snapshot, requestId: RequestKey.make(`r-${(requests += 1)}`) })

const start = (script: string) => ({ argv: ["/bin/sh", "-c", script] as const, environment: {} })

const run = (client: Client, script: string) =>
  Effect.flatMap(client.executions.run({ params, payload: start(script) }), outcomeOf).pipe(
    Effect.map(({ text }) => text)
  )

const provisioned = (client: Client) =>
  Effect.gen(function* () {
    yield* client.projects.create({ payload: { name: project } })
    const requestId = RequestKey.make("provision")
    const parameters = { cpuMillis: 500, memoryMebibytes: 128 }
    yield* succeeded(
      client,
      client.operations.request({ params, payload: { action: "provision", requestId, parameters } })
    )
  })

/** The Project's directories on the disk of the node. */
const disksOf = ({ home }: Place): ReadonlyArray<string> => {
  const [only] = readdirSync(join(home, "state", "disks"))
  const root = join(home, "state", "disks", only ?? "")
  return readdirSync(root).map((name) => join(root, name))
}

const numberIn = (directory: string, name: string): number =>
  Number(readFileSync(join(directory, name), "utf8").trim() || Number.NaN)

const pidOf = (place: Place, sandbox: string): number =>
  JSON.parse(readFileSync(join(place.home, "state", "runtime", sandbox, "identity.json"), "utf8")).init.pid

const sandboxOf = (client: Client) =>
  Effect.map(client.projects.status({ params }), ({ runtime }) => runtime?.sandbox ?? "")

/** Counts for as long as it is let: `first` is written before `second`, so a copy of one moment has them at most one apart. */
const counting = `i=0; echo 0 >first; echo 0 >second
  while :; do i=$((i+1)); echo $i >.f; mv .f first; echo $i >.s; mv .s second; done`

const copyOf = (place: Place, before: ReadonlyArray<string>) => {
  const [copy, ...others] = disksOf(place).filter((path) => !before.includes(path))
  assert.deepStrictEqual(others, [])
  return copy ?? ""
}

const killedAt = (
  place: Place,
  killAt: KillPoint,
  ask: (client: Client) => Effect.Effect<OperationView, unknown>
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const daemon = yield* startDaemon(place, { killAt })
      const client = yield* awaitReady(place, daemon)
      const operation = yield* ask(client)
      assert.strictEqual(yield* daemon.ended, "SIGKILL", daemon.output())
      return operation
    })
  )

describe("daemon, snapshots", () => {
  it.live(
    "a snapshot is of one moment, its guest goes on counting, and a restore brings the file back",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const client = yield* awaitReady(place, yield* startDaemon(place))
        yield* provisioned(client)
        const before = disksOf(place)
        const workspace = before[0] ?? ""
        yield* Effect.forkScoped(run(client, counting))
        const counts = Effect.sync(
          () => existsSync(join(workspace, "second")) && numberIn(workspace, "second")
        )
        const beyond = (least: number) =>
          counts.pipe(
            Effect.repeat({ until: (count) => Number(count) > least, schedule: Schedule.spaced(pollMillis) }),
            Effect.timeout(testMillisMax / 4)
          )
        yield* beyond(5)
        const pid = pidOf(place, yield* sandboxOf(client))
        yield* succeeded(client, client.snapshots.create({ params, payload: payload() }))
        const copy = copyOf(place, before)
        const [first, second] = [numberIn(copy, "first"), numberIn(copy, "second")]
        assert.include([0, 1], first - second, "it is of one moment")
        yield* beyond(second + 5)
        assert.strictEqual(pidOf(place, yield* sandboxOf(client)), pid, "it is the guest that it was")
        assert.strictEqual(numberIn(copy, "second"), second, "the copy stands still")
        const [listed] = yield* client.snapshots.list({ params })
        assert.deepStrictEqual([listed?.id, listed?.state], [snapshot, "ready"])

        yield* succeeded(client, client.snapshots.restore({ params, payload: payload() }))
        assert.strictEqual(yield* run(client, "cat second"), String(second))
        assert.isFalse(existsSync(workspace), "the old disk is gone with its machine")
        assert.strictEqual(yield* run(client, "echo mine >second && cat second"), "mine")
        assert.strictEqual(numberIn(copy, "second"), second, "the snapshot is not what the machine works on")

        yield* client.snapshots.remove({ params, query: { snapshot } })
        assert.isFalse(existsSync(copy))
        const { paths } = yield* client.projects.previewDeletion({ params })
        yield* client.projects.delete({ params, payload: { confirmedPaths: paths } })
        assert.deepStrictEqual(readdirSync(join(place.home, "state", "disks")), [])
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "SP-OPS-03 a guest whose daemon was killed while it stood still goes on with the next one, which makes the snapshot",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const killAt = {
          boundary: "before",
          program: "operations.guestPause",
          step: "resume",
          occurrence: 1
        } as const
        let pid = 0
        let sandbox = ""
        const operation = yield* killedAt(place, killAt, (client) =>
          Effect.gen(function* () {
            yield* provisioned(client)
            sandbox = yield* sandboxOf(client)
            pid = pidOf(place, sandbox)
            return yield* client.snapshots.create({ params, payload: payload() })
          })
        )
        const client = yield* awaitReady(place, yield* startDaemon(place))
        const done = yield* settled(client, operation)
        assert.strictEqual(done.state, "succeeded", done.error?.message ?? "")
        assert.strictEqual(
          yield* run(client, "echo $((6 * 7))"),
          "42",
          "a guest that stands still runs nothing"
        )
        assert.deepStrictEqual([yield* sandboxOf(client), pidOf(place, sandbox)], [sandbox, pid])
        assert.lengthOf(disksOf(place), 2)
        assert.deepStrictEqual(
          disksOf(place).filter((path) => path.endsWith(".part")),
          []
        )
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "SP-OPS-03 a restore whose daemon is killed behind any of its steps is finished by the next one, with one machine",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        yield* Effect.scoped(
          Effect.gen(function* () {
            const client = yield* awaitReady(place, yield* startDaemon(place))
            yield* provisioned(client)
            yield* run(client, "echo kept >file")
            yield* succeeded(client, client.snapshots.create({ params, payload: payload() }))
          })
        )
        const check = (client: Client, operation: OperationView, step: string) =>
          Effect.gen(function* () {
            const done = yield* settled(client, operation)
            assert.strictEqual(done.state, "succeeded", `${step}: ${done.error?.message ?? ""}`)
            assert.strictEqual(yield* run(client, "cat file; rm file"), "kept", step)
            assert.lengthOf(disksOf(place), 2, step)
            const { charges } = yield* client.projects.status({ params })
            assert.strictEqual(charges.used.sandboxes, 1, step)
          })
        let earlier: { readonly operation: OperationView; readonly step: string } | undefined
        for (const step of ["quiesce", "stop", "import", "guest", "boot", "switch", "cleanup"]) {
          // The operation of the round before is finished here, and passes this boundary once where it was not behind it.
          const occurrence = earlier === undefined ? 1 : 2
          const killAt = { boundary: "after", program: "restore", step, occurrence } as const
          const operation: OperationView = yield* killedAt(place, killAt, (client) =>
            Effect.gen(function* () {
              if (earlier !== undefined) yield* check(client, earlier.operation, earlier.step)
              return yield* client.snapshots.restore({ params, payload: payload() })
            })
          )
          earlier = { operation, step }
        }
        const client = yield* awaitReady(place, yield* startDaemon(place))
        if (earlier !== undefined) yield* check(client, earlier.operation, earlier.step)
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
