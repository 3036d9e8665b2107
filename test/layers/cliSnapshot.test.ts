/** The verbs on snapshots against a scripted daemon on a real socket. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import { operation, serveScript, snapshotOfWeb } from "../infra/http/scriptedServer.ts"
import { holdfast } from "./cliHarness.ts"

describe("holdfast snapshot", () => {
  it.live("create and restore ask for operations on the snapshot that is named, be it `..`", () =>
    Effect.gen(function* () {
      const asked = yield* Ref.make<ReadonlyArray<unknown>>([])
      const socket = yield* serveScript({
        requestOperation: (payload) =>
          Effect.as(
            Ref.update(asked, (before) => [...before, payload]),
            operation()
          )
      })
      for (const verb of ["create", "restore"]) {
        const ran = yield* holdfast(["snapshot", verb, "web", "..", "--request-id", verb, "--socket", socket])
        assert.strictEqual(ran.exit, 0, ran.stderr)
      }
      const parameters = { snapshot: ".." }
      assert.deepStrictEqual(yield* Ref.get(asked), [
        { action: "snapshot", requestId: "create", parameters },
        { action: "restore", requestId: "restore", parameters }
      ])
    })
  )

  it.live("list shows what there is, and delete reaches a snapshot whose name no path could hold", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const listed = yield* holdfast(["snapshot", "list", "web", "--json", "--socket", socket])
      assert.deepStrictEqual(JSON.parse(listed.stdout), [snapshotOfWeb])
      const shown = yield* holdfast(["snapshot", "list", "web", "--socket", socket])
      assert.include(shown.stdout, "ready")
      const removed = yield* holdfast(["snapshot", "delete", "web", "..", "--socket", socket])
      assert.deepStrictEqual([removed.exit, removed.stdout], [0, "removed snapshot .. of web\n"])
    })
  )

  it.live("each end has its own exit code, and a wrong name asks nobody", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const table = [
        [["delete", "web", "other"], 4],
        [["list", "other"], 4],
        [["create", "web", "a/b"], 2],
        [["restore", "web", ""], 2],
        [["delete", "web", "a b"], 2],
        [["delete", "web"], 2]
      ] as const
      for (const [args, exit] of table) {
        const ran = yield* holdfast(["snapshot", ...args, "--socket", socket])
        assert.strictEqual(ran.exit, exit, `${args.join(" ")}: ${ran.stderr}`)
      }
    })
  )
})
