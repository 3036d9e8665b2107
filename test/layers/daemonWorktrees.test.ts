/**
 * Worktrees of a daemon as a process, with real guests and real git: parallel ones are made one after the other, one that
 * is cancelled half way is taken back, and each goes as it should.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { RepositoryName } from "../../src/domain/leases/RepositoryClaim.ts"
import { BranchName } from "../../src/domain/worktrees/Worktree.ts"
import { awaitReady, makePlace, startDaemon } from "../support/daemonProcess.ts"
import {
  codeOf,
  create,
  holding,
  inGuest,
  letGo,
  list,
  named,
  onDatabase,
  params,
  provisioned,
  remove,
  run,
  testMillisMax,
  untilReached
} from "./worktreeScene.ts"

describe("daemon, worktrees", () => {
  it.live(
    "SP-ADM-05 SP-LEASE-02 eight worktrees of one repository are asked for at once, and git makes one at a time",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const client = yield* awaitReady(place, yield* startDaemon(place))
        yield* provisioned(client)
        yield* run(
          client,
          `cd /workspace/code/app && git config filter.hold.smudge '
            mkdir /workspace/inside || touch /workspace/overlapped; git --version >&2; rmdir /workspace/inside; cat'`
        )
        const names = Array.from({ length: 8 }, (_, index) => `task-${index}`)
        const made = yield* Effect.forEach(names, (name) => create(client, name), { concurrency: 8 })
        assert.deepStrictEqual(
          made.map(({ path, state }) => [path, state]),
          names.map((name) => [`/workspace/.worktrees/${name}`, "ready"])
        )
        const [trees, ...others] = yield* inGuest(client)
        assert.sameMembers(
          [...(trees ?? [])],
          names.map((name) => `/workspace/.worktrees/${name}`)
        )
        assert.deepStrictEqual(others, [["main", ...names], names])
        const clean = `for t in /workspace/.worktrees/*; do git -C $t status --porcelain; cat $t/file8; done | wc -l
          ls /workspace`
        assert.deepStrictEqual((yield* run(client, clean)).trim().split(/\s+/), ["8", "code"])
        const leases = yield* onDatabase(
          place,
          `select 1 from plugin_sandbox.repository_claims union all select 1 from plugin_sandbox.execution_leases`
        )
        assert.lengthOf(leases.rows, 0)
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "a worktree goes when it is clean, by force when it is not, and when its directory is gone; its branch stays",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const client = yield* awaitReady(place, yield* startDaemon(place))
        yield* provisioned(client)
        for (const name of ["clean", "dirty", "locked", "gone", "pruned", "homeless"])
          yield* create(client, name)
        yield* run(
          client,
          `cd /workspace/.worktrees; echo mine >dirty/new; git -C locked worktree lock ../locked
          rm -rf pruned; git -C clean worktree prune; rm -rf gone
          git -C clean worktree add -q --detach /workspace/mine; rm -rf /workspace/mine; ln -s code/app /workspace/link; mkdir taken`
        )
        yield* remove(client, "clean")
        yield* remove(client, "gone")
        yield* remove(client, "pruned")
        assert.strictEqual(yield* codeOf(remove(client, "dirty")), "worktree_dirty")
        assert.strictEqual(yield* codeOf(remove(client, "locked")), "worktree_locked")
        assert.strictEqual(yield* run(client, "cat /workspace/.worktrees/dirty/new"), "mine")
        assert.deepStrictEqual(yield* list(client), ["dirty ready", "locked ready", "homeless ready"])
        yield* remove(client, "dirty", true)
        yield* remove(client, "locked", true)
        assert.strictEqual(yield* codeOf(remove(client, "dirty", true)), "worktree_not_found")
        assert.deepStrictEqual(yield* inGuest(client), [
          ["/workspace/.worktrees/homeless", "/workspace/mine"],
          ["clean", "dirty", "gone", "homeless", "locked", "main", "pruned"],
          ["homeless", "mine", "taken"]
        ])

        const from = (where: string, name: string, more: object = {}) =>
          codeOf(
            client.worktrees.create({
              params,
              payload: { repository: RepositoryName.make(where), name: named(name), ...more }
            })
          )
        const refusals = [
          [from("code/app", "homeless"), "worktree_exists"],
          [from("code/app", "taken"), "worktree_path_taken"],
          [from("code/app", "x", { branch: BranchName.make("homeless") }), "branch_in_use"],
          [from("code/app", "x", { branch: BranchName.make("clean"), startPoint: "HEAD" }), "branch_exists"],
          [from("code/app", "x", { startPoint: "nowhere" }), "start_point_not_found"],
          [from("code", "x"), "repository_not_found"],
          [from("link", "x"), "repository_not_found"],
          [from(".worktrees/homeless", "x"), "repository_not_found"]
        ] as const
        for (const [asked, code] of refusals) assert.strictEqual(yield* asked, code)
        assert.deepStrictEqual(yield* list(client), ["homeless ready"])

        yield* run(client, "rm -rf /workspace/code")
        assert.strictEqual(yield* codeOf(remove(client, "homeless")), "repository_not_found")
        yield* remove(client, "homeless", true)
        assert.strictEqual((yield* run(client, "ls /workspace/.worktrees")).trim(), "taken")
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "SP-ADM-05 a making that is cancelled half way is taken back with its branch, and never with one that is somebody else's",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const client = yield* awaitReady(place, yield* startDaemon(place))
        yield* provisioned(client)
        yield* run(client, "cd /workspace/code/app && git branch kept")
        const meanwhile = `cd /workspace/code/app && git update-ref refs/heads/moved \
          $(git commit-tree -p main -m somebody main^{tree})`
        const table = [
          ["task", "true", ["kept", "main"]],
          ["kept", "true", ["kept", "main"]],
          ["moved", meanwhile, ["kept", "main", "moved"]]
        ] as const
        for (const [branch, script, branches] of table) {
          yield* holding(client)
          const making = yield* Effect.forkScoped(codeOf(create(client, "task", branch)))
          yield* untilReached(client)
          assert.deepStrictEqual(yield* list(client), ["task creating"])
          yield* run(client, script)
          const asked = yield* client.leases.cancel({ params })
          assert.include(
            asked.map(({ label }) => label),
            "git"
          )
          assert.strictEqual(yield* Fiber.join(making), "lease_lost")
          assert.deepStrictEqual(yield* list(client), [])
          assert.deepStrictEqual(yield* inGuest(client), [[], [...branches], []])
          yield* letGo(client)
          assert.strictEqual((yield* create(client, "task", branch)).state, "ready")
          yield* remove(client, "task")
          yield* run(client, "cd /workspace/code/app && git branch -D task; true")
        }
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
