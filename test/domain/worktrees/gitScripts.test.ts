/** What the exit codes of the scripts mean. What the scripts do is shown with real git, in layers/daemonWorktrees. */
import { assert, describe, it } from "@effect/vitest"
import {
  branchNotMadeCode,
  gitEnvironment,
  placeNotMadeCode,
  refusalOfExit
} from "../../../src/domain/worktrees/gitScripts.ts"

describe("gitScripts", () => {
  it("a script that has done its work refuses nothing, and what it does not tell apart is git's own failure", () => {
    assert.isNull(refusalOfExit(0))
    assert.strictEqual(refusalOfExit(46), "worktree_dirty")
    assert.strictEqual(refusalOfExit(placeNotMadeCode), "worktree_path_taken")
    for (const code of [1, 2, 127, 128, 137, branchNotMadeCode]) {
      assert.strictEqual(refusalOfExit(code), "worktree_failed", String(code))
    }
  })

  it("git asks nobody, speaks the language that the scripts read, and runs no hook", () => {
    assert.deepInclude(gitEnvironment, { LC_ALL: "C", GIT_TERMINAL_PROMPT: "0" })
    assert.deepInclude(gitEnvironment, {
      GIT_CONFIG_KEY_0: "core.hooksPath",
      GIT_CONFIG_VALUE_0: "/dev/null"
    })
  })
})
