/**
 * Strangers in the guest's place: another process under its recorded pid, or on its agent's pipes, is neither believed
 * nor killed. The strangers are real; that a pid came round again is written into the record of the guest.
 */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import type { SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { lookAtReadiness } from "../../../src/domain/registry/readiness.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { childrenOf, observeProcess } from "../../../src/infra/guests/kernel.ts"
import { run } from "../../suites/guestHarness.ts"
import {
  anotherBoot,
  chargesNow,
  chargesOf,
  describeWithGroups,
  killEverything,
  leaveGuest,
  type LeftGuest,
  makeNode,
  makeStranger,
  rewrite
} from "./recoveryNode.ts"
import { isGone } from "../../support/processes.ts"

const millisMax = 60_000
const wish = { reason: "user", actor: "tester" } as const

/** What the next daemon makes of it: its look, then the record after its pass. */
const judged = ({ sandbox }: LeftGuest) =>
  Effect.gen(function* () {
    const seen = (yield* (yield* GuestSupervisor).inspect(sandbox))._tag
    yield* reconcileSandboxes
    const { status } = yield* (yield* Registry).get(sandbox)
    return { seen, status }
  })

const pidCases = (kind: SupervisorKind): void => {
  it.live(
    "RG-RUN-04 a stranger under init's pid is not the guest: it is gone, and the stranger lives on",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const node = yield* makeNode(kind)
          const guest = yield* leaveGuest(node)
          yield* killEverything(guest)
          const { pid } = yield* makeStranger
          const { startTicks } = guest.identity.init
          rewrite(guest, "identity.json", { init: { pid, startTicks }, monitor: { pid, startTicks } })
          yield* node.daemon(
            Effect.gen(function* () {
              assert.deepStrictEqual(yield* judged(guest), { seen: "Gone", status: "Failed" })
              yield* deleteSandbox(guest.sandbox, wish)
              assert.deepStrictEqual(yield* chargesNow, chargesOf(0))
            })
          )
          assert.isFalse(isGone(pid))
        })
      ),
    millisMax
  )

  it.live(
    "RG-RUN-04 a stranger under init's pid with its very start time is no member: uncertain, charged, not killed",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const node = yield* makeNode(kind)
          const guest = yield* leaveGuest(node)
          yield* killEverything(guest)
          const { pid } = yield* makeStranger
          rewrite(guest, "identity.json", { init: observeProcess(pid) })
          yield* node.daemon(
            Effect.gen(function* () {
              const supervisor = yield* GuestSupervisor
              assert.deepStrictEqual(yield* judged(guest), { seen: "Uncertain", status: "Running" })
              const record = yield* (yield* Registry).get(guest.sandbox)
              assert.include(record.statusReason, "is not in every cgroup of the guest")
              assert.isFalse((yield* lookAtReadiness(record)).ready)
              assert.strictEqual((yield* supervisor.end(guest.sandbox, { graceMillis: 0 }))._tag, "Uncertain")
              const refused = yield* Effect.flip(deleteSandbox(guest.sandbox, wish))
              assert.strictEqual(refused._tag, "AbsenceNotProved")
              assert.deepStrictEqual(yield* chargesNow, chargesOf(1))
            })
          )
          assert.isFalse(isGone(pid))
          rewrite(guest, "identity.json", anotherBoot)
          yield* node.daemon(reconcileSandboxes)
        })
      ),
    millisMax
  )

  it.live(
    "RG-RUN-04 a stranger under the monitor's pid does not outweigh the guest, nor end with it",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const node = yield* makeNode(kind)
          const guest = yield* leaveGuest(node)
          const { pid } = yield* makeStranger
          const { startTicks } = guest.identity.monitor
          rewrite(guest, "identity.json", { monitor: { pid, startTicks } })
          yield* node.daemon(
            Effect.gen(function* () {
              assert.deepStrictEqual(yield* judged(guest), { seen: "Running", status: "Running" })
              assert.strictEqual((yield* run(guest.sandbox, ["true"])).exitCode, 0)
              const { evidence } = yield* deleteSandbox(guest.sandbox, wish)
              assert.strictEqual(evidence._tag, "GroupsEmpty")
            })
          )
          assert.isTrue(isGone(guest.identity.init.pid))
          assert.isFalse(isGone(pid))
        })
      ),
    millisMax
  )
}

const barePidCases = (kind: SupervisorKind): void => {
  it.live(
    "RG-RUN-04 without cgroups init is known by its mounts: a stranger with its very pid and start time is uncertain",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const node = yield* makeNode(kind)
          const guest = yield* leaveGuest(node)
          rewrite(guest, "identity.json", { groups: [] })
          yield* node.daemon(
            Effect.gen(function* () {
              assert.deepStrictEqual(yield* judged(guest), { seen: "Running", status: "Running" })
            })
          )
          yield* killEverything(guest)
          const { pid } = yield* makeStranger
          rewrite(guest, "identity.json", { init: observeProcess(pid) })
          yield* node.daemon(
            Effect.gen(function* () {
              assert.deepStrictEqual(yield* judged(guest), { seen: "Uncertain", status: "Running" })
              const refused = yield* Effect.flip(deleteSandbox(guest.sandbox, wish))
              assert.strictEqual(refused._tag, "AbsenceNotProved")
              assert.deepStrictEqual(yield* chargesNow, chargesOf(1))
              assert.isFalse(isGone(pid))
              const { startTicks } = guest.identity.init
              rewrite(guest, "identity.json", { init: { pid, startTicks }, monitor: { pid, startTicks } })
              yield* reconcileSandboxes
              assert.deepStrictEqual(yield* chargesNow, chargesOf(0))
            })
          )
          assert.isFalse(isGone(pid))
        })
      ),
    millisMax
  )
}

/** Takes the agent's orders and answers each as the agent would; `runner` is the pid that it names for a command. */
const liar = `exec 3<>"$1/in" 4<>"$1/out"
while read -r verb id rest <&3; do
  case $verb in
  ping) echo "pong $id 1" >&4 ;;
  exec) echo "started $id $2" >&4; echo "done $id 0" >&4 ;;
  esac
done`

const makeLiar = ({ folder }: LeftGuest, runner: number) =>
  Effect.acquireRelease(
    Effect.sync(() => spawn("sh", ["-c", liar, "liar", folder.agent, String(runner)], { stdio: "ignore" })),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

const pipeCases = (kind: SupervisorKind): void => {
  it.live(
    "RG-RUN-04 a stranger who answers on the pipes of a guest that is gone makes no guest of it",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const node = yield* makeNode(kind)
          const guest = yield* leaveGuest(node)
          yield* killEverything(guest)
          yield* makeLiar(guest, 1)
          yield* node.daemon(
            Effect.gen(function* () {
              const supervisor = yield* GuestSupervisor
              assert.strictEqual(
                (yield* Effect.flip(supervisor.ping(guest.sandbox)))._tag,
                "GuestStateRefused"
              )
              assert.strictEqual((yield* Effect.flip(run(guest.sandbox, ["true"])))._tag, "GuestStateRefused")
              assert.deepStrictEqual(yield* judged(guest), { seen: "Gone", status: "Failed" })
              const record = yield* (yield* Registry).get(guest.sandbox)
              assert.isFalse((yield* lookAtReadiness(record)).ready)
              assert.strictEqual((yield* deleteSandbox(guest.sandbox, wish)).evidence._tag, "GroupsEmpty")
            })
          )
        })
      ),
    millisMax
  )

  it.live(
    "RG-RUN-04 a stranger who names a process of the host for a command gets it neither bound, run nor killed",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const node = yield* makeNode(kind)
          const guest = yield* leaveGuest(node)
          // The agent itself is kept from its orders, so that the liar has every one of them.
          for (const pid of childrenOf(guest.identity.init.pid)) process.kill(pid, "SIGSTOP")
          const { pid } = yield* makeStranger
          const groups = () => Files.readFileSync(`/proc/${pid}/cgroup`, "utf8")
          const before = groups()
          yield* makeLiar(guest, pid)
          yield* node.daemon(
            Effect.gen(function* () {
              const refused = yield* Effect.flip(run(guest.sandbox, ["true"]))
              assert.strictEqual(refused._tag, "GuestFailure")
              assert.include(refused.message, "ended before it could be bound")
              yield* deleteSandbox(guest.sandbox, wish)
            })
          )
          assert.isFalse(isGone(pid))
          assert.strictEqual(groups(), before)
        })
      ),
    millisMax
  )

  it.live(
    "RG-RUN-04 whatever a stranger writes to the answers, the guest's own are heard",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const node = yield* makeNode(kind)
          const guest = yield* leaveGuest(node)
          const answers = Path.join(guest.folder.agent, "out")
          const noise = `while :; do echo; echo 'started x 1'; echo 'pong y z'; echo "done $1"; sleep 0.001; done >"$1"`
          yield* Effect.acquireRelease(
            Effect.sync(() => spawn("sh", ["-c", noise, "noise", answers], { stdio: "ignore" })),
            (child) => Effect.sync(() => child.kill("SIGKILL"))
          )
          yield* node.daemon(
            Effect.gen(function* () {
              assert.deepStrictEqual(yield* judged(guest), { seen: "Running", status: "Running" })
              const supervisor = yield* GuestSupervisor
              assert.strictEqual((yield* supervisor.inspect(guest.sandbox))._tag, "Running")
              yield* deleteSandbox(guest.sandbox, wish)
            })
          )
          assert.isTrue(isGone(guest.identity.init.pid))
        })
      ),
    millisMax
  )
}

await describeWithGroups("bubblewrap", () => {
  pidCases("bubblewrap")
  barePidCases("bubblewrap")
  pipeCases("bubblewrap")
})
