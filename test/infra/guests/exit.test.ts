/**
 * How a guest ended while no daemon ran is kept, and told by the record of the next daemon, by the node's API and by
 * the tombstone. One daemon leaves all guests, each ends in its own way, and the next daemon looks.
 */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Files from "node:fs"
import * as Path from "node:path"
import { beforeAll } from "vitest"
import type { SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { lookAtReadiness } from "../../../src/domain/registry/readiness.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { inspectionView } from "../../../src/infra/http/node/nodePresent.ts"
import { readMemoryKills } from "../../../src/infra/guests/cgroupControl.ts"
import { isPopulated, membersOf } from "../../../src/infra/guests/cgroups.ts"
import { commandLineOf } from "../../suites/guestHarness.ts"
import { waitFor } from "../../support/waiting.ts"
import {
  chargesNow,
  chargesOf,
  describeWithGroups,
  killAndWait,
  killEverything,
  leaveGuest,
  leftGuest,
  type LeftGuest,
  makeGuest,
  makeNode
} from "./recoveryNode.ts"
import { isGone } from "../../support/processes.ts"

const millisMax = 120_000

interface Ending {
  readonly way: string
  /** What the main command does when it is told to go. */
  readonly command: string
  /** What is done to the guest from outside, after it was told. */
  readonly act?: (guest: LeftGuest) => Effect.Effect<void>
  /** By the kind of supervisor where they differ; null: nobody saw it. */
  readonly exitCode: number | null | Readonly<Partial<Record<SupervisorKind, number>>>
  readonly memoryKills?: true
}

const commandOf = (pid: number): string => commandLineOf(pid).replaceAll("\0", " ")

/** The guest's process that runs this, once it is there. */
const findProcess = ({ identity }: LeftGuest, command: string) =>
  Effect.map(
    waitFor({
      fact: `the guest runs ${command}`,
      look: Effect.sync(() =>
        membersOf(identity.groups[0]!.path).find((pid) => commandOf(pid).startsWith(command))
      ),
      holds: (pid) => pid !== undefined,
      deadlineMillis: 20_000
    }),
    (pid) => pid ?? 0
  )

const killMain = (guest: LeftGuest) => Effect.flatMap(findProcess(guest, "sleep 1234"), killAndWait)

const endings: ReadonlyArray<Ending> = [
  { way: "exit 0", command: "exit 0", exitCode: 0 },
  { way: "exit 7", command: "exit 7", exitCode: 7 },
  { way: "a signal that it sent itself", command: "kill -TERM $$; sleep 1234", exitCode: 143 },
  { way: "a fault", command: "kill -SEGV $$; sleep 1234", exitCode: 139 },
  {
    way: "SIGKILL of its main command from outside",
    command: "exec sleep 1234",
    act: killMain,
    exitCode: 137
  },
  { way: "want of memory", command: "exec tail /dev/zero", exitCode: 137, memoryKills: true },
  {
    way: "SIGKILL of its init from outside",
    command: "exec sleep 1234",
    act: ({ identity }) => killAndWait(identity.init.pid),
    // unshare wants to die as its child did, may not with SIGKILL, and says 1.
    exitCode: { bubblewrap: 137, unshare: 1 }
  },
  {
    way: "exit 7 after its monitor was killed",
    command: "sleep 0.3; exit 7",
    act: ({ identity }) => killAndWait(identity.monitor.pid),
    exitCode: null
  },
  { way: "the end of its cgroup", command: "exec sleep 1234", act: killEverything, exitCode: null }
]

const waiting = (command: string): ReadonlyArray<string> => [
  "sh",
  "-c",
  `while [ ! -e /workspace/go ]; do sleep 0.02; done; ${command}`
]

const letGo = ({ folder }: LeftGuest): void => Files.writeFileSync(Path.join(folder.workspace, "go"), "")

const awaitEnd = ({ identity }: LeftGuest) =>
  waitFor({
    fact: `the guest of process ${identity.init.pid} has ended`,
    look: Effect.sync(
      () => isGone(identity.init.pid) && !identity.groups.some(({ path }) => isPopulated(path))
    ),
    holds: (ended) => ended,
    deadlineMillis: 20_000
  })

/** What the next daemon tells of one guest: its record and API, then the proof of its deletion. */
const tell = ({ sandbox }: LeftGuest) =>
  Effect.gen(function* () {
    const record = yield* (yield* Registry).get(sandbox)
    const view = inspectionView(record, yield* lookAtReadiness(record))
    const { exit } = yield* deleteSandbox(sandbox, { reason: "user", actor: "tester" })
    return { view, exit }
  })

const endAll = (kind: SupervisorKind) =>
  Effect.gen(function* () {
    const node = yield* makeNode(kind)
    const sandboxes = yield* node.daemon(
      Effect.forEach(endings, ({ command }) => makeGuest({ argv: waiting(command) }))
    )
    const guests = yield* Effect.forEach(sandboxes, (each) => leftGuest(node.stateDirectory, each))
    for (const [at, guest] of guests.entries()) {
      letGo(guest)
      yield* endings[at]!.act?.(guest) ?? Effect.void
    }
    yield* Effect.forEach(guests, awaitEnd)
    const kills = guests.map(({ identity }) => readMemoryKills(identity.groups))
    return yield* node.daemon(
      Effect.gen(function* () {
        yield* reconcileSandboxes
        const charges = yield* chargesNow
        return { charges, kills, told: yield* Effect.forEach(guests, tell), rest: yield* chargesNow }
      })
    )
  })

const endingCases = (kind: SupervisorKind): void => {
  let all: Effect.Success<ReturnType<typeof endAll>>
  beforeAll(async () => {
    all = await Effect.runPromise(Effect.scoped(endAll(kind)))
  }, millisMax)

  it.each(endings.map(({ way }, at) => ({ way, at })))(
    "RG-RUN-03 a guest ended by $way is told so",
    ({ at }) => {
      const { exitCode: expected, memoryKills } = endings[at]!
      const exitCode = typeof expected === "object" && expected !== null ? (expected[kind] ?? null) : expected
      const { exit, view } = all.told[at]!
      const why = exitCode === null ? "ended, and its exit was not seen" : `ended with exit code ${exitCode}`
      const { notReadyBecause, ready, status, statusReason } = view
      assert.deepStrictEqual(
        { status, statusReason, ready, notReadyBecause },
        { status: "Failed", statusReason: why, ready: false, notReadyBecause: `its guest ${why}` }
      )
      assert.strictEqual(exit?.exitCode ?? null, exitCode)
      if (memoryKills === true) assert.isAtLeast(all.kills[at] ?? 0, 1)
      else assert.strictEqual(all.kills[at], 0)
    }
  )

  it("RG-DEL-02 every one of them is charged until its deletion", () => {
    assert.deepStrictEqual(all.charges, chargesOf(endings.length))
    assert.deepStrictEqual(all.rest, chargesOf(0))
  })

  it.live(
    "RG-RUN-03 an end is not judged before the monitor's word about it, as long as that is under way",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const node = yield* makeNode(kind)
          for (const word of ["comes", "does not come"] as const) {
            const guest = yield* leaveGuest(node, { argv: waiting("exit 7") })
            const { init, monitor } = guest.identity
            process.kill(monitor.pid, "SIGSTOP")
            letGo(guest)
            yield* waitFor({
              fact: "init has ended",
              look: Effect.sync(() => isGone(init.pid)),
              holds: (is) => is
            })
            const observation = yield* node.daemon(
              Effect.gen(function* () {
                const supervisor = yield* GuestSupervisor
                assert.strictEqual((yield* supervisor.inspect(guest.sandbox))._tag, "Unsettled")
                const ending = yield* Effect.forkChild(supervisor.end(guest.sandbox, { graceMillis: 0 }))
                yield* Effect.sleep(30)
                if (word === "comes") process.kill(monitor.pid, "SIGCONT")
                return yield* Fiber.join(ending)
              })
            )
            const exit = word === "comes" ? { exitCode: 7 } : null
            assert.deepInclude({ ...observation }, { _tag: "Gone", exit })
          }
        })
      ),
    millisMax
  )
}

await describeWithGroups("bubblewrap", () => endingCases("bubblewrap"))
await describeWithGroups("unshare", () => endingCases("unshare"))
