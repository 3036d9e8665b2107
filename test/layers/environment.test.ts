/** The plugin's own routes as a real daemon serves them. */
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { ask, codeOf } from "../infra/http/asking.ts"
import { awaitReady, makePlace, startDaemon } from "../support/daemonProcess.ts"

const testMillisMax = 60_000

describe("the environment of a Project", () => {
  it.live(
    "SP-HTTP-01 SP-DB-07 FC-05 is read and asked for at the plugin's route; sweeps are told by health and a metric",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const daemon = yield* startDaemon(place)
        const client = yield* awaitReady(place, daemon)
        const { id } = yield* client.projects.create({ payload: { name: "web" } })
        const socket = join(place.home, "holdfast.sock")
        const path = `/plugins/sandbox/api/projects/${id}/environment`
        const read = yield* ask(socket, "GET", path)
        assert.deepStrictEqual(
          [read.status, JSON.parse(read.body)],
          [200, { project: id, runtime: null, liveOperation: null, operations: [] }]
        )
        for (const target of [
          path.replace(`/${id}/`, `/0${id}/`),
          `${path}/`,
          path.replace("sandbox", "sites")
        ]) {
          assert.strictEqual((yield* ask(socket, "GET", target)).status, 404, target)
        }
        const deletion = yield* ask(socket, "POST", path, { action: "delete", requestId: "d" })
        assert.deepStrictEqual([deletion.status, codeOf(deletion)], [409, "project_deletion_required"])
        const metrics = yield* ask(socket, "GET", "/metrics").pipe(
          Effect.repeat({
            until: ({ body }) => body.includes('sweep="leases"'),
            schedule: Schedule.spaced("25 millis")
          }),
          Effect.timeout("10 seconds")
        )
        assert.include(metrics.body, 'holdfast_sweep_failed{sweep="sandboxes"} 0')
        const health = yield* client.system.health()
        assert.strictEqual(health.status, "ok")
        assert.isTrue(health.checks.some(({ name }) => name === "sweep of leases"))
        daemon.process.kill("SIGTERM")
        assert.strictEqual(yield* daemon.ended, 0, daemon.output())
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
