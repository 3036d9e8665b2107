/** The commands of the model of leases: each goes to the product and to the oracle, whose answers must agree. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { randomUUID } from "node:crypto"
import { Generation, SandboxId } from "../../src/domain/Identity.ts"
import { cancelExecutionsOf, requestCancel } from "../../src/domain/leases/cancellation.ts"
import { admitExecution } from "../../src/domain/leases/execution.ts"
import { heartbeat } from "../../src/domain/leases/heartbeat.ts"
import { ExecutionEvidence, labelOfCommand } from "../../src/domain/leases/Lease.ts"
import { LeaseStore } from "../../src/domain/leases/LeaseStore.ts"
import { claimRepository } from "../../src/domain/leases/repository.ts"
import { RepositoryName } from "../../src/domain/leases/RepositoryClaim.ts"
import { RepositoryClaims } from "../../src/domain/leases/RepositoryClaims.ts"
import { finalizeProvenGone } from "../../src/domain/leases/settlement.ts"
import { sweepClaims, sweepInventory } from "../../src/domain/leases/sweep.ts"
import type { StorageFailure } from "../../src/domain/persistence/PluginDb.ts"
import { exited, goneGuest } from "../domain/leases/fixture.ts"
import type { Held, LeaseRun } from "./leaseRun.ts"
import { happenings } from "./leaseWorld.ts"

const repositories = ["app", "lib"]
const inventoriesKept = 4

const sorted = (names: ReadonlyArray<string | undefined>) => names.map(String).toSorted()

const acquire = Effect.fnUntraced(function* (run: LeaseRun) {
  const project = yield* run.someProject
  const by = run.random.pick(run.alive)
  const isMember = !run.random.percent(5)
  const scene = run.scenes.get(project)!
  const caller = isMember ? scene.caller : run.random.pick([...run.scenes.values()]).caller
  const name = `e${(run.made += 1)}`
  const asked = { project: scene.project, label: labelOfCommand(["sh"]) }
  const answered = yield* Effect.result(run.as(by)(admitExecution(caller, asked)))
  const answer = Result.isSuccess(answered) ? "admitted" : answered.failure._tag
  assert.strictEqual(
    answer,
    run.oracle.admit(name, project, by.written, caller === scene.caller),
    `admission of ${name}`
  )
  if (Result.isSuccess(answered)) {
    run.names.set(answered.success.lease.id, name)
    run.held.push({ name, by, kind: "execution", handle: answered.success })
  }
  run.success(`acquire ${answer}`)
})

const claim = Effect.fnUntraced(function* (run: LeaseRun) {
  const project = yield* run.someProject
  const by = run.random.pick(run.alive)
  const current = run.oracle.project(project).generation
  const generation = run.random.percent(85) ? current : 1 + run.random.below(current)
  const key = run.random.pick(repositories)
  const name = `r${(run.made += 1)}`
  const answered = yield* Effect.result(
    run.as(by)(
      claimRepository({
        project: run.scenes.get(project)!.project,
        sandbox: run.sandboxOf(project, generation),
        generation: Generation.make(generation),
        repository: RepositoryName.make(key),
        waitMillis: 0
      })
    )
  )
  const told = () => {
    if (Result.isSuccess(answered)) return "won"
    const { failure } = answered
    if (failure._tag === "RepositoryBusy") return `RepositoryBusy ${failure.holder}`
    return failure._tag === "LeaseLost" ? `LeaseLost ${failure.reason}` : failure._tag
  }
  assert.strictEqual(
    told(),
    run.oracle.claim(name, { project, key, generation }, by.written),
    `claim of ${name}`
  )
  if (Result.isSuccess(answered)) {
    run.names.set(answered.success.claim.id, name)
    run.held.push({ name, by, kind: "repository", handle: answered.success })
  }
  run.success(`claim ${told().split(" ")[0]}`)
})

/** Something that a living daemon holds; often what it only believes to hold, now and then what has ended already. */
const someHeld = (run: LeaseRun): Held | undefined => {
  const known = run.held.filter(({ by }) => !run.dead.has(by.written)).slice(-40)
  const open = known.filter(({ name }) => run.oracle.holdings.get(name)?.outcome === null)
  const vain = open.filter(({ by, kind, name }) => run.oracle.row({ kind, name })?.process !== by.written)
  const from = [vain, open, known].find((some) => some.length > 0 && run.random.percent(40)) ?? open
  return from.length === 0 ? undefined : run.random.pick(from)
}

const renew = Effect.fnUntraced(function* (run: LeaseRun) {
  const by = run.random.pick(run.alive)
  const { outcomes, repositories: claims, settlementsLeft } = yield* run.as(by)(heartbeat())
  const told = [...outcomes, ...claims].map(({ id, outcome }) => [run.names.get(id), outcome])
  const foreseen = run.oracle.heartbeat(by.written)
  assert.deepStrictEqual(new Map(told as Array<[string, string]>), new Map(foreseen), "the heartbeat")
  assert.strictEqual(settlementsLeft, 0)
  for (const answer of foreseen.values()) run.success(`renew ${answer}`)
})

const confirm = Effect.fnUntraced(function* (run: LeaseRun) {
  const held = someHeld(run)
  if (held === undefined) return
  const answered = yield* Effect.result(run.as(held.by)(held.handle.confirm))
  const answer = Result.isSuccess(answered)
    ? "usable"
    : answered.failure._tag === "LeaseLost"
      ? answered.failure.reason
      : answered.failure._tag
  assert.strictEqual(answer, run.oracle.confirm(held.name), `the use of ${held.name}`)
  run.success(`confirm ${answer}`)
})

/** Ended, not known to have ended, or by a proof of another machine, which says nothing here. */
const release = Effect.fnUntraced(function* (run: LeaseRun) {
  const held = someHeld(run)
  if (held === undefined) return
  const elsewhere = SandboxId.make(`sb-${randomUUID()}`)
  const isEnded = run.random.percent(70)
  const strange = Option.some(ExecutionEvidence.cases.GuestGone.make({ proof: goneGuest(elsewhere) }))
  const evidence = isEnded ? exited : run.random.percent(50) ? Option.none() : strange
  const ended =
    held.kind === "execution"
      ? Effect.map(held.handle.finalize(evidence), (finalized) => finalized.outcome)
      : held.handle.finalize(evidence)
  const outcome = yield* run.as(held.by)<string, StorageFailure, never>(ended)
  assert.strictEqual(outcome, run.oracle.finalize(held.name, isEnded), `the end of ${held.name}`)
  run.success(`release ${held.kind} ${outcome}`)
})

const proveGone = Effect.fnUntraced(function* (run: LeaseRun) {
  if (run.random.percent(60)) return
  const held = someHeld(run)
  if (held === undefined) return
  const { generation, project } = run.oracle.holdings.get(held.name)!
  const proof = goneGuest(run.sandboxOf(project, generation), generation)
  const count = yield* run.as(held.by)(finalizeProvenGone(proof))
  assert.strictEqual(count, run.oracle.proveGone(held.by.written, project, generation), "what the proof ends")
  if (count > 0) run.success("prove gone")
})

const cancel = Effect.fnUntraced(function* (run: LeaseRun) {
  const known = run.held.filter(({ kind }) => kind === "execution").slice(-30)
  if (known.length === 0) return
  const held = run.random.pick(known)
  const by = run.random.pick(run.alive)
  if (held.kind !== "execution") return
  const answered = yield* Effect.result(run.as(by)(requestCancel(held.handle.lease.id)))
  const answer = Result.isSuccess(answered) ? answered.success : answered.failure._tag
  assert.strictEqual(answer, run.oracle.cancel(held.name, by.written), `the cancellation of ${held.name}`)
  run.success(`cancel ${answer}`)
})

const cancelAll = Effect.fnUntraced(function* (run: LeaseRun) {
  if (run.random.percent(60)) return
  const project = yield* run.someProject
  const by = run.random.pick(run.alive)
  const asked = yield* run.as(by)(cancelExecutionsOf(run.scenes.get(project)!.project))
  const foreseen = run.oracle.cancelAll(project, by.written)
  assert.deepStrictEqual(sorted(asked.map(({ id }) => run.names.get(id))), sorted(foreseen), "the cancelled")
  if (foreseen.length > 0) run.success("cancel all")
})

const look = Effect.fnUntraced(function* (run: LeaseRun) {
  const { node } = run.random.pick(run.alive).identity
  const leases = yield* (yield* LeaseStore).inventory(node)
  const claims = yield* (yield* RepositoryClaims).inventory(node)
  const seen = run.oracle.inventory((written) => run.daemonOf(written).identity.node === node)
  const told = [...leases, ...claims].map(({ id }) => run.names.get(id))
  assert.deepStrictEqual(sorted(told), sorted(seen.map(({ name }) => name)), "the inventory")
  run.inventories.push({ node, leases, claims, seen })
  if (run.inventories.length > inventoriesKept) run.inventories.shift()
  run.success("look")
})

/** Acts on an inventory that may be old: whatever has come since is left alone. */
const sweep = Effect.fnUntraced(function* (run: LeaseRun) {
  if (run.inventories.length === 0) return
  const inventory = run.random.pick(run.inventories)
  const isNewest = inventory === run.inventories.at(-1)
  const ofNode = run.alive.filter(({ identity }) => identity.node === inventory.node)
  // Of another node nobody is known to be dead.
  const by = run.random.pick(run.random.percent(80) ? ofNode : run.alive)
  const gone = [
    ...(yield* run.as(by)(sweepInventory(inventory.leases))),
    ...(yield* run.as(by)(sweepClaims(inventory.claims)))
  ]
  const foreseen = run.oracle.sweep(inventory.seen, by.written, {
    isDead: (written) => run.dead.has(written) && by.identity.node === run.daemonOf(written).identity.node,
    isOver: ({ generation, project }) => !run.unknown.has(run.sandboxOf(project, generation))
  })
  assert.deepStrictEqual(sorted(gone.map((id) => run.names.get(id))), sorted(foreseen), "what is swept")
  if (foreseen.length > 0) run.success(isNewest ? "sweep" : "sweep stale")
})

/** Of somebody who was silent, mostly. */
const takeOver = Effect.fnUntraced(function* (run: LeaseRun) {
  const { leases, seen } = run.inventories.at(-1) ?? { leases: [], seen: [] }
  // In the order of the names, since ids are drawn anew each time: a seed has to repeat its run.
  const found = leases
    .map((observed) => {
      const name = run.names.get(observed.id)
      return { observed, as: seen.find((each) => each.name === name)! }
    })
    .toSorted((one, other) => (one.as.name < other.as.name ? -1 : 1))
  const silent = found.filter((each) => each.as.isSilent)
  const from = silent.length > 0 && run.random.percent(70) ? silent : found
  if (from.length === 0) return
  const { as, observed } = run.random.pick(from)
  const successor = run.random.pick(run.alive).written
  const taken = yield* (yield* LeaseStore).takeOver(observed, successor)
  assert.strictEqual(taken, run.oracle.takeOver(as, successor), `${as.name} taken over`)
  run.success(`take over ${taken}`)
})

const removeEnded = Effect.fnUntraced(function* (run: LeaseRun) {
  const removed = yield* (yield* LeaseStore).removeEnded
  assert.strictEqual(removed, run.oracle.removeEnded(), "tombstones of ended machines")
  if (removed > 0) run.success("remove ended")
})

const happen = (run: LeaseRun) => Effect.suspend(() => run.random.pick(happenings)(run))

/** As often as each is drawn. */
export const commands = [
  [acquire, acquire, acquire, acquire, claim, claim, claim, renew, renew, renew, confirm, confirm, confirm],
  [release, release, proveGone, cancel, cancel, cancelAll, look, look, sweep, sweep, takeOver, takeOver],
  [removeEnded, happen, happen, happen, happen, happen]
].flat()

const endsOf = (command: string, outcomes: ReadonlyArray<string>) =>
  outcomes.map((outcome) => `${command} ${outcome}`)

/** Every way in which a command can end that the rules allow. */
export const ends = [
  endsOf("acquire", ["admitted", "ProjectNotActive", "AccessRefused", "RuntimeNotRunning"]),
  endsOf("claim", ["won", "RepositoryBusy", "LeaseLost"]),
  endsOf("renew", ["renewed", "restored", "generation", "successor", "expired"]),
  endsOf("confirm", ["usable", "expired", "absent", "successor", "generation", "cancelled", "settled"]),
  endsOf("release execution", ["released", "cancelled", "absent", "retained"]),
  endsOf("release repository", ["released", "absent", "retained"]),
  endsOf("cancel", ["all", "requested", "verified", "LeaseNotFound"]),
  endsOf("expire", ["database", "holder", "both"]),
  ["lose", "kill", "replace", "start", "stop", "close", "hide", "prove gone", "remove ended"],
  ["look", "sweep", "sweep stale", "take over true", "take over false"]
].flat()
