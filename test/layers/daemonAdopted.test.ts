/** A directory of the host's under a real daemon with a real guest: worked in, and left behind by all that ends. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { RequestKey } from "../../src/domain/Identity.ts"
import type { OperationAction, OperationParameters } from "../../src/domain/operations/Operation.ts"
import type { ApiClient } from "../../src/infra/http/apiClient.ts"
import { awaitReady, makePlace, startDaemon } from "../support/daemonProcess.ts"
import { outcomeOf } from "../support/executionOutcome.ts"

type Client = ApiClient["Service"]

const testMillisMax = 120_000
const params = { project: "site" }

const succeeded = (client: Client, action: OperationAction, parameters: OperationParameters = {}) =>
  Effect.gen(function* () {
    const payload = { action, requestId: RequestKey.make(action), parameters }
    const asked = yield* client.operations.request({ params, payload })
    const done = yield* client.operations.get({ params: { id: asked.id } }).pipe(
      Effect.repeat({
        until: ({ state }) => state !== "queued" && state !== "claimed",
        schedule: Schedule.spaced(25)
      }),
      Effect.timeout(testMillisMax / 4)
    )
    assert.strictEqual(done.state, "succeeded", done.error?.message ?? "")
  })

const run = (client: Client, script: string) =>
  Effect.flatMap(
    client.executions.run({ params, payload: { argv: ["/bin/sh", "-c", script], environment: {} } }),
    outcomeOf
  ).pipe(Effect.map(({ text }) => text))

/** Open to whoever the guest runs as, as its administrator has to make it. */
const hostDirectory = Effect.acquireRelease(
  Effect.sync(() => {
    const home = mkdtempSync(join(tmpdir(), "hf-host-"))
    chmodSync(home, 0o755)
    const directory = join(home, "site")
    mkdirSync(directory)
    chmodSync(directory, 0o777)
    writeFileSync(join(directory, "page"), "theirs")
    return directory
  }),
  (directory) => Effect.sync(() => rmSync(join(directory, ".."), { recursive: true, force: true }))
)

describe("adopted directories under a daemon", () => {
  it.live(
    "SP-DEL-07 a guest works in the host's directory; a rebuild and the Project's deletion leave it where it is",
    () =>
      Effect.gen(function* () {
        const directory = yield* hostDirectory
        const before = statSync(directory)
        const place = yield* makePlace
        const client = yield* awaitReady(place, yield* startDaemon(place))
        yield* client.projects.create({ payload: { name: "site" } })
        yield* succeeded(client, "provision", { cpuMillis: 500, memoryMebibytes: 128, adoptDisk: directory })
        assert.strictEqual(yield* run(client, "cat page; echo made >file"), "theirs")
        yield* succeeded(client, "rebuild")
        assert.strictEqual((yield* run(client, "cat page file")).trim(), "theirsmade")
        const { paths } = yield* client.projects.previewDeletion({ params })
        assert.isFalse(paths.some((path) => path.startsWith(directory)))
        const deletion = yield* client.projects.delete({ params, payload: { confirmedPaths: paths } })
        assert.strictEqual(deletion.state, "completed")
        assert.strictEqual(readFileSync(join(directory, "page"), "utf8"), "theirs")
        assert.strictEqual(readFileSync(join(directory, "file"), "utf8"), "made\n")
        const after = statSync(directory)
        assert.deepStrictEqual(
          [after.ino, after.uid, after.gid, after.mode],
          [before.ino, before.uid, before.gid, before.mode]
        )
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
