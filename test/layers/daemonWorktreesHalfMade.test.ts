/**
 * Worktrees that a daemon, a guest or a machine has left half made or half removed, with real guests and real git: the
 * next daemon, guest or machine brings them to their end.
 */
import { existsSync, readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { awaitReady, makePlace, type Place, startDaemon } from "../support/daemonProcess.ts"
import {
  ask,
  type Client,
  codeOf,
  create,
  holding,
  inGuest,
  letGo,
  list,
  pollMillis,
  provisioned,
  remove,
  run,
  silence,
  testMillisMax,
  untilNothingIsLeft,
  untilReached
} from "./worktreeScene.ts"

/** How many of git's filters wait in the guest. */
const waitingFilters = (client: Client) =>
  run(
    client,
    `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c 'while [[] -e /workspace/hold'`
  )

/** The workspace of the one Project, as the node has it on its disk. */
const workspaceOf = ({ home }: Place): string => {
  const disks = join(home, "state", "disks")
  const [root] = readdirSync(disks)
  const [disk] = readdirSync(join(disks, root ?? ""))
  return join(disks, root ?? "", disk ?? "")
}

const entry = "code/app/.git/worktrees/task"

/** What the kill has left, and as it would have been a moment earlier: git writes its lock, then where the tree is. */
const leftovers: ReadonlyArray<
  readonly [what: string, spoil: (workspace: string) => void, by: "the sweep" | "the next holder"]
> = [
  [
    "a tree, an entry that is locked",
    (workspace) => assert.isTrue(existsSync(join(workspace, entry, "locked"))),
    "the sweep"
  ],
  [
    "an entry without its tree",
    (workspace) => rmSync(join(workspace, ".worktrees/task"), { recursive: true }),
    "the next holder"
  ],
  [
    "an entry that does not say where its tree is",
    (workspace) => {
      for (const name of ["gitdir", "commondir", "HEAD"]) rmSync(join(workspace, entry, name))
    },
    "the next holder"
  ]
]

describe("daemon, worktrees left half made", () => {
  it.live.each(leftovers)(
    "SP-ADM-05 SP-LEASE-06 a making whose daemon is killed half way is taken back behind the next one, once git has ended: %s",
    ([, spoil, by]) =>
      Effect.gen(function* () {
        const place = yield* makePlace
        yield* Effect.scoped(
          Effect.gen(function* () {
            const daemon = yield* startDaemon(place)
            const client = yield* awaitReady(place, daemon)
            yield* provisioned(client)
            yield* holding(client)
            yield* Effect.forkScoped(Effect.exit(create(client, "task")))
            yield* untilReached(client)
            assert.notStrictEqual(yield* waitingFilters(client), "0")
            daemon.process.kill("SIGKILL")
            assert.strictEqual(yield* daemon.ended, "SIGKILL")
          })
        )
        spoil(workspaceOf(place))
        yield* silence(place)
        const client = yield* awaitReady(place, yield* startDaemon(place))
        if (by === "the sweep") {
          yield* untilNothingIsLeft(client)
          assert.deepStrictEqual(yield* inGuest(client), [[], ["main"], []])
        } else {
          yield* letGo(client)
          assert.strictEqual((yield* create(client, "other")).state, "ready")
          const other = ["/workspace/.worktrees/other"]
          assert.deepStrictEqual(yield* inGuest(client), [other, ["main", "other"], ["other"]])
        }
        assert.notInclude(yield* list(client), "task creating")
        assert.strictEqual(yield* waitingFilters(client), "0", "nothing of the dead daemon goes on writing")
        yield* letGo(client)
        assert.strictEqual((yield* create(client, "task")).state, "ready")
        assert.strictEqual(yield* run(client, "cd /workspace/.worktrees/task && git status --porcelain"), "")
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "SP-ADM-05 SP-LEASE-07 a guest that ends or is replaced half way leaves nothing in the next one, and what is ready stays",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const client = yield* awaitReady(place, yield* startDaemon(place))
        yield* provisioned(client)
        yield* create(client, "before")
        const halfWay = (name: string, meanwhile: Effect.Effect<unknown, unknown>) =>
          Effect.gen(function* () {
            yield* holding(client)
            const making = yield* Effect.forkScoped(codeOf(create(client, name)))
            yield* untilReached(client)
            yield* meanwhile
            assert.include(["lease_lost", "guest_failure", "runtime_not_running"], yield* Fiber.join(making))
          })
        const afterwards = list(client).pipe(
          Effect.repeat({ until: (all) => all.length === 1, schedule: Schedule.spaced(pollMillis) }),
          Effect.timeout(testMillisMax / 4),
          Effect.andThen(letGo(client)),
          Effect.andThen(inGuest(client))
        )
        const whole = [["/workspace/.worktrees/before"], ["before", "main"], ["before"]]
        yield* halfWay("stopped", ask(client, "stop"))
        assert.strictEqual(yield* codeOf(create(client, "other")), "runtime_not_running")
        assert.strictEqual(yield* codeOf(remove(client, "before")), "runtime_not_running")
        yield* ask(client, "start")
        assert.deepStrictEqual(yield* afterwards, whole)
        yield* halfWay("replaced", ask(client, "rebuild"))
        assert.deepStrictEqual(yield* afterwards, whole)
        assert.strictEqual(yield* run(client, "git -C /workspace/.worktrees/before status --porcelain"), "")
        assert.strictEqual((yield* create(client, "replaced")).state, "ready")
        yield* remove(client, "before")
        assert.deepStrictEqual(yield* list(client), ["replaced ready"])
      }).pipe(Effect.scoped),
    testMillisMax
  )

  it.live(
    "SP-ADM-05 a making and a removal whose daemon is killed around any of their steps come to their end with the next ones",
    () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        yield* Effect.scoped(
          Effect.flatMap(
            Effect.flatMap(startDaemon(place), (daemon) => awaitReady(place, daemon)),
            provisioned
          )
        )
        const killedAt = (
          [boundary, step]: readonly ["before" | "after", string],
          use: (client: Client) => Effect.Effect<unknown, unknown>
        ) =>
          Effect.scoped(
            Effect.gen(function* () {
              const killAt = { boundary, program: "worktrees", step, occurrence: 1 } as const
              const daemon = yield* startDaemon(place, { killAt })
              yield* Effect.exit(use(yield* awaitReady(place, daemon)))
              assert.strictEqual(yield* daemon.ended, "SIGKILL", daemon.output())
              yield* silence(place)
            })
          )
        const makings = [
          ["before", "look"],
          ["after", "look"],
          ["before", "add"],
          ["after", "add"]
        ] as const
        for (const at of makings) yield* killedAt(at, (client) => create(client, "task"))
        yield* killedAt(["before", "check"], (client) =>
          Effect.gen(function* () {
            assert.strictEqual((yield* create(client, "task")).state, "ready")
            yield* remove(client, "task")
          })
        )
        const removals = [
          ["after", "check"],
          ["before", "remove"],
          ["after", "remove"]
        ] as const
        for (const at of removals) {
          yield* killedAt(at, (client) => remove(client, "task"))
          // A tree that is half gone looks like one with changes, which a removal that is not forced keeps.
          if (at[0] === "before") rmSync(join(workspaceOf(place), ".worktrees/task/file8"))
        }
        const client = yield* awaitReady(place, yield* startDaemon(place))
        yield* untilNothingIsLeft(client)
        assert.deepStrictEqual(yield* inGuest(client), [[], ["main", "task"], []])
      }).pipe(Effect.scoped),
    testMillisMax
  )
})
