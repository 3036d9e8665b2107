/**
 * A daemon that starts finds every sandbox as the recovery table has it, and brings record, charge, files and processes
 * where the table says: with real guests, through the node registry's own pass. One daemon leaves the guests of all
 * rows, the next one takes all of them up, and each row is asserted by itself.
 */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Files from "node:fs"
import * as Path from "node:path"
import { beforeAll } from "vitest"
import type { SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { sandboxView } from "../../../src/infra/http/node/nodePresent.ts"
import { drawSandbox, run } from "../../suites/guestHarness.ts"
import {
  anotherBoot,
  chargesNow,
  chargesOf,
  describeWithGroups,
  dyingAfter,
  entriesOf,
  groupsLeft,
  killEverything,
  leftGuest,
  type LeftGuest,
  makeGuest,
  makeNode,
  requestFor,
  rewrite
} from "./recoveryNode.ts"
import { isGone } from "../../support/processes.ts"
import { type RecoveryRow, recoveryRows } from "./recoveryRows.ts"

const millisMax = 120_000
const wish = { reason: "user", actor: "tester" } as const

const pass = Effect.map(
  reconcileSandboxes,
  (all) => new Map(all.map(({ sandbox, verdict }) => [sandbox, verdict]))
)

/** What the pass has made of the record, as the node's API tells it; null: it is gone. */
const standing = (sandbox: SandboxId) =>
  Effect.gen(function* () {
    const record = (yield* (yield* Registry).inventory).get(sandbox)
    if (record === undefined) return { status: null, reason: null }
    const { status, statusReason } = sandboxView(record)
    return { status, reason: statusReason }
  })

/** Leaves the row's guest where its daemon died. */
const leave = (row: RecoveryRow) =>
  Effect.gen(function* () {
    const sandbox = yield* makeGuest({}, row.died === "starting" ? "launch" : undefined)
    if (row.died === "deleting") {
      yield* Effect.exit(
        deleteSandbox(sandbox, wish).pipe(Effect.provideService(StepObserver, dyingAfter("tombstone")))
      )
    }
    return sandbox
  })

/** Whether the guest is the very one that was left, and takes commands where it runs. */
const adoption = (row: RecoveryRow, { identity, sandbox }: LeftGuest) =>
  Effect.gen(function* () {
    const seen = yield* (yield* GuestSupervisor).inspect(sandbox)
    const isSame =
      (seen._tag === "Running" || seen._tag === "Paused") &&
      seen.identity.init.pid === identity.init.pid &&
      seen.identity.init.startTicks === identity.init.startTicks
    const exitCode =
      row.status === "Running" && seen._tag === "Running" ? (yield* run(sandbox, ["true"])).exitCode : null
    return { isSame, exitCode }
  })

/** What the next daemon makes of all rows' guests. */
const recoverAll = (guests: ReadonlyArray<readonly [RecoveryRow, LeftGuest]>) =>
  Effect.gen(function* () {
    const supervisor = yield* GuestSupervisor
    const seen = yield* Effect.forEach(guests, ([, { sandbox }]) => supervisor.inspect(sandbox))
    const first = yield* pass
    const recovered = yield* Effect.forEach(guests, ([row, guest]) =>
      Effect.gen(function* () {
        const { reason, status } = yield* standing(guest.sandbox)
        const isAlive = !isGone(guest.identity.init.pid)
        return { status, reason, isAlive, ...(yield* adoption(row, guest)) }
      })
    )
    const charges = yield* chargesNow
    const second = yield* pass
    const again = yield* Effect.forEach(guests, ([, { sandbox }]) => standing(sandbox))
    const outcomes = guests.map(([, { sandbox }], at) => ({
      ...recovered[at]!,
      seen: seen[at]!._tag,
      verdict: first.get(sandbox),
      second: second.get(sandbox),
      again: again[at]!
    }))
    return { outcomes, charges }
  })

/** Asks for the deletion of each, and looks at what is left. */
const deleteAll = (guests: ReadonlyArray<readonly [RecoveryRow, LeftGuest]>) =>
  Effect.forEach(guests, ([, guest]) =>
    Effect.gen(function* () {
      const before = entriesOf(guest)
      const deleted = yield* Effect.result(deleteSandbox(guest.sandbox, wish))
      return {
        evidence: Result.isSuccess(deleted) ? deleted.success.evidence._tag : null,
        refusal: Result.isFailure(deleted) ? deleted.failure._tag : null,
        isCharged: (yield* (yield* Registry).inventory).has(guest.sandbox),
        lost: before.filter((name) => !entriesOf(guest).includes(name)),
        entries: entriesOf(guest),
        groups: groupsLeft(guest),
        isAlive: !isGone(guest.identity.init.pid)
      }
    })
  )

/** What ends all doubt: the stranger has left, and the machine has booted again. */
const endDoubt = (guest: LeftGuest) =>
  Effect.gen(function* () {
    yield* killEverything(guest)
    for (const name of ["identity.json", "preparing.json"]) {
      if (entriesOf(guest).includes(name)) rewrite(guest, name, anotherBoot)
    }
  })

const recover = (kind: SupervisorKind, rows: ReadonlyArray<RecoveryRow>) =>
  Effect.gen(function* () {
    const node = yield* makeNode(kind)
    const sandboxes = yield* node.daemon(Effect.forEach(rows, leave))
    const left = yield* Effect.forEach(sandboxes, (each) => leftGuest(node.stateDirectory, each))
    const guests = rows.map((row, at) => [row, left[at]!] as const)
    const { charges, deleted, outcomes, rest } = yield* Effect.scoped(
      Effect.gen(function* () {
        for (const [row, guest] of guests) yield* row.meanwhile(guest)
        return yield* node.daemon(
          Effect.gen(function* () {
            const recovered = yield* recoverAll(guests)
            const deleted = yield* deleteAll(guests)
            return { ...recovered, deleted, rest: yield* chargesNow }
          })
        )
      })
    )
    for (const [row, guest] of guests) if (row.evidence === null) yield* endDoubt(guest)
    const end = yield* node.daemon(Effect.andThen(pass, chargesNow))
    const left2 = left.flatMap((guest) => [...groupsLeft(guest), ...entriesOf(guest)])
    return { charges, rest, end, left: new Set(left2), outcomes, deleted }
  })

const rowCases = (kind: SupervisorKind, rows: ReadonlyArray<RecoveryRow>): void => {
  let all: Effect.Success<ReturnType<typeof recover>>
  beforeAll(async () => {
    all = await Effect.runPromise(Effect.scoped(recover(kind, rows)))
  }, millisMax)

  it.each(rows.map((row, at) => ({ row: row.row, at })))("RG-RUN-03 RG-DEL-06 $row", ({ at }) => {
    const row = rows[at]!
    const { again, exitCode, isSame, reason, second, ...outcome } = all.outcomes[at]!
    const { isAlive, seen, status, verdict } = row
    assert.deepStrictEqual(outcome, { isAlive, seen, status, verdict })
    assert.strictEqual(reason === null, row.reason === null)
    assert.include(reason ?? "", row.reason ?? "")
    const isAdopted = status === "Running" || status === "Paused" ? row.evidence !== null : false
    assert.deepStrictEqual(
      { isSame, exitCode },
      { isSame: isAdopted, exitCode: isAdopted && status === "Running" ? 0 : null }
    )
    // A second pass has nothing left to do, except to try again.
    assert.strictEqual(second, status === null ? undefined : verdict === "failed" ? "failed" : "keep")
    assert.deepStrictEqual(again, { status, reason })
  })

  it.each(rows.map((row, at) => ({ row: row.row, at })))("RG-DEL-01 RG-DEL-06 deleted: $row", ({ at }) => {
    const row = rows[at]!
    const { entries, evidence, groups, isAlive, isCharged, lost, refusal } = all.deleted[at]!
    assert.strictEqual(evidence, row.evidence)
    assert.strictEqual(isCharged, row.evidence === null)
    if (row.evidence !== null) {
      assert.deepStrictEqual({ entries, groups }, { entries: ["owner.lock", "tombstone.json"], groups: [] })
      return
    }
    assert.strictEqual(refusal, row.died === "deleting" ? "GuestFailure" : "AbsenceNotProved")
    assert.deepStrictEqual({ isAlive, lost }, { isAlive: row.isAlive, lost: [] })
    assert.strictEqual(entries.includes("tombstone.json"), row.died === "deleting")
    // Files go behind the cgroups: while those are in the way, everything is there.
    assert.include(entries, "run")
  })

  it("RG-BUD-04 the charge is that of the retained records, and of none when all doubt is over", () => {
    const retained = rows.filter(({ status }) => status !== null).length
    const doubted = rows.filter(({ evidence }) => evidence === null).length
    assert.deepStrictEqual(all.charges, chargesOf(retained))
    assert.deepStrictEqual(all.rest, chargesOf(doubted))
    assert.deepStrictEqual(all.end, chargesOf(0))
    assert.deepStrictEqual([...all.left].toSorted(), ["owner.lock", "tombstone.json"])
  })
}

const untouchedCases = (kind: SupervisorKind): void => {
  it.live(
    "RG-RUN-03 neither preparing nor identity, with and without a folder: created, never started, and may be",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const node = yield* makeNode(kind)
          const sandboxes = [drawSandbox(), drawSandbox()]
          yield* node.daemon(Effect.forEach(sandboxes, (sandbox) => createSandbox(requestFor(sandbox))))
          const [withFolder = ""] = sandboxes
          Files.mkdirSync(Path.join(node.stateDirectory, "runtime", withFolder), { mode: 0o711 })
          yield* node.daemon(
            Effect.gen(function* () {
              assert.deepStrictEqual([...(yield* pass).values()], ["keep", "keep"])
              assert.deepStrictEqual(yield* chargesNow, chargesOf(2))
              for (const sandbox of sandboxes) {
                assert.strictEqual((yield* standing(sandbox)).status, "Pending")
                yield* startSandbox(sandbox)
                assert.strictEqual((yield* standing(sandbox)).status, "Running")
                yield* deleteSandbox(sandbox, wish)
              }
              assert.deepStrictEqual(yield* chargesNow, chargesOf(0))
            })
          )
        })
      ),
    millisMax
  )
}

await describeWithGroups("bubblewrap", () => {
  rowCases("bubblewrap", recoveryRows)
  untouchedCases("bubblewrap")
})
await describeWithGroups("unshare", () => {
  rowCases(
    "unshare",
    recoveryRows.filter(({ differs }) => differs)
  )
})
