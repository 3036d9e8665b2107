/** Names of worktrees and branches: what becomes a path, a word of a command or a ref is plain. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { BranchName, StartPoint, worktreePath, WorktreeName } from "../../../src/domain/worktrees/Worktree.ts"

const accepts = (schema: Schema.Top, words: ReadonlyArray<string>) =>
  words.filter((word) => Schema.is(schema)(word))

describe("Worktree", () => {
  it("a worktree's name is one directory and as good a branch, never a way out and never an option", () => {
    const good = ["task", "task-1", "a.b", "_x", "7", "HEAD1"]
    const bad = [
      "",
      ".",
      "..",
      "a/b",
      "-x",
      ".a",
      "a b",
      "a..b",
      "a.lock",
      "a.",
      "HEAD",
      "a\n",
      "é",
      "x".repeat(201)
    ]
    assert.deepStrictEqual(accepts(WorktreeName, good), good)
    assert.deepStrictEqual(accepts(WorktreeName, bad), [])
    assert.deepStrictEqual(accepts(BranchName, good), good)
    assert.strictEqual(worktreePath({ name: WorktreeName.make("task") }), "/workspace/.worktrees/task")
  })

  it("a branch has such names for its segments", () => {
    const bad = [
      "a//b",
      "a/",
      "/a",
      "a/.b",
      "a/-b",
      "a/b.lock",
      "a.lock/b",
      "a/../b",
      "a@{1}",
      "a~1",
      "a:b",
      "a*"
    ]
    assert.deepStrictEqual(accepts(BranchName, ["feature/a.b", "a/b/c"]), ["feature/a.b", "a/b/c"])
    assert.deepStrictEqual(accepts(BranchName, bad), [])
  })

  it("a start point is a revision in one word, never an option", () => {
    const good = ["main", "HEAD~2", "v1.0^{commit}", "origin/main", "a@{1}"]
    assert.deepStrictEqual(accepts(StartPoint, good), good)
    assert.deepStrictEqual(accepts(StartPoint, ["", "-x", "--all", "a b", "a;b", "$(x)", "a\n"]), [])
  })
})
