/** The verbs on worktrees against a scripted daemon on a real socket. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { serveScript } from "../infra/http/scriptedServer.ts"
import { worktreeOfWeb } from "../infra/http/scriptedWorktrees.ts"
import { holdfast } from "./cliHarness.ts"

describe("holdfast worktree", () => {
  it.live("create tells where the worktree lies, and has the branch that was asked for", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const create = ["worktree", "create", "web", "code/app", "next", "--socket", socket]
      const shown = yield* holdfast([...create, "--branch", "feature/x", "--from", "main"])
      assert.deepStrictEqual(
        [shown.exit, shown.stdout],
        [0, "made worktree next of code/app on branch feature/x: /workspace/.worktrees/task\n"]
      )
      const json = yield* holdfast([...create, "--json"])
      assert.deepStrictEqual(JSON.parse(json.stdout), {
        ...worktreeOfWeb,
        repository: "code/app",
        name: "next"
      })
    })
  )

  it.live("list shows what there is, and remove takes it away", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const listed = yield* holdfast(["worktree", "list", "web", "--json", "--socket", socket])
      assert.deepStrictEqual(JSON.parse(listed.stdout), [worktreeOfWeb])
      const shown = yield* holdfast(["worktree", "list", "web", "--socket", socket])
      assert.include(shown.stdout, "/workspace/.worktrees/task")
      const removed = yield* holdfast(["worktree", "remove", "web", "task", "--force", "--socket", socket])
      assert.deepStrictEqual([removed.exit, removed.stdout], [0, "removed worktree task of web\n"])
      const json = yield* holdfast(["worktree", "remove", "web", "task", "-f", "--json", "--socket", socket])
      assert.deepStrictEqual(JSON.parse(json.stdout), { project: "web", worktree: "task" })
    })
  )

  it.live("each end has its own exit code, and a wrong name asks nobody", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const table = [
        [["create", "web", "app", "task"], 5, "worktree_exists"],
        [["remove", "web", "task"], 5, "worktree_dirty"],
        [["list", "other"], 4, "project_not_found"],
        [["create", "other", "app", "next"], 4, "project_not_found"],
        [["create", "web", "../app", "next"], 2, "usage"],
        [["create", "web", "app", ".."], 2, "usage"],
        [["create", "web", "app", "next", "--branch", "a..b"], 2, "usage"],
        [["create", "web", "app", "next", "--from", "a b"], 2, "usage"],
        [["remove", "web", "a/b"], 2, "usage"]
      ] as const
      for (const [args, exit, code] of table) {
        const ran = yield* holdfast(["worktree", ...args, "--json", "--socket", socket])
        assert.strictEqual(ran.exit, exit, `${args.join(" ")}: ${ran.stderr}`)
        assert.include(ran.stderr, code)
      }
      const incomplete = yield* holdfast(["worktree", "create", "web", "app", "--socket", socket])
      assert.strictEqual(incomplete.exit, 2)
    })
  )
})
