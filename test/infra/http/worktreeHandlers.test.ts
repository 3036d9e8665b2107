/** What the API shows of a worktree, and what it refuses by form. That a real daemon answers it: layers/daemonWorktrees. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { AccountId, Generation, LeaseId, ProjectId } from "../../../src/domain/Identity.ts"
import { RepositoryName } from "../../../src/domain/leases/RepositoryClaim.ts"
import { BranchName, Worktree, WorktreeName } from "../../../src/domain/worktrees/Worktree.ts"
import { worktreeView } from "../../../src/infra/http/present.ts"
import { ask, codeOf } from "./asking.ts"
import { serveScript, uuid } from "./scriptedServer.ts"
import { canary } from "./storedOperation.ts"

const stored = new Worktree({
  rowId: 1,
  project: ProjectId.make(7),
  repository: RepositoryName.make("code/app"),
  name: WorktreeName.make("task"),
  branch: BranchName.make("feature/x"),
  isBegun: true,
  branchBase: canary,
  state: "removing",
  isDisposable: true,
  generation: Generation.make(3),
  claim: LeaseId.make(uuid(4)),
  account: AccountId.make(uuid(1)),
  removedBy: canary,
  reason: canary,
  createdAtMillis: 1_000
})

describe("worktreeHandlers", () => {
  it("FC-21 a worktree is shown by its names, its place inside the guest and its state, and nothing else", () => {
    assert.deepStrictEqual(worktreeView(stored), {
      name: stored.name,
      repository: stored.repository,
      branch: stored.branch,
      path: "/workspace/.worktrees/task",
      state: "removing",
      createdAtMillis: 1_000
    })
  })

  it.live("SP-HTTP-05 a request of a wrong form is refused by name", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const path = "/projects/web/worktrees"
      const table = [
        ["POST", path, { repository: "app", name: "next", more: 1 }, 400],
        ["POST", path, { repository: "../app", name: "next" }, 400],
        ["POST", path, { repository: "app", name: ".." }, 400],
        ["POST", path, { repository: "app", name: "next", branch: "-x" }, 400],
        ["POST", path, { repository: "app", name: "next", startPoint: "--all" }, 400],
        ["DELETE", `${path}/task?force=yes`, undefined, 400],
        ["DELETE", `${path}/task?force=true`, undefined, 204],
        ["POST", path, { repository: "app", name: "next" }, 201]
      ] as const
      for (const [method, target, body, status] of table) {
        const answer = yield* ask(socket, method, target, body)
        assert.strictEqual(
          answer.status,
          status,
          `${method} ${target} ${JSON.stringify(body)}: ${answer.body}`
        )
        if (status === 400) assert.strictEqual(codeOf(answer), "invalid_request")
      }
    })
  )
})
