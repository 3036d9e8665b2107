/** A removal that finds other work on the Project: what is held by others, what nobody has begun, and the removal itself. */
import { existsSync } from "node:fs"
import { randomUUID } from "node:crypto"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as PubSub from "effect/PubSub"
import { NodeId, ProcessIdentity } from "../../../src/domain/Identity.ts"
import { claimNext, releaseClaim } from "../../../src/domain/operations/claims.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { machineOf, type Operation } from "../../../src/domain/operations/Operation.ts"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { removalRequestKey } from "../../../src/domain/operations/parameters.ts"
import { recoverClaims } from "../../../src/domain/operations/recovery.ts"
import { Processes } from "../../../src/domain/Processes.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import { RuntimeObserved } from "../../../src/domain/runtimes/Runtime.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { Clone } from "../../support/clone.ts"
import { waitFor } from "../../support/waiting.ts"
import { carryOut, claim, receiptOf } from "../operations/actionCases.ts"
import { admitDeletion, ask, newProject, requestOf, type Scene, Scripted, undispatched } from "./fixture.ts"

const provisioned = Effect.gen(function* () {
  const scene = yield* newProject
  const operation = yield* carryOut(scene, requestOf(scene.project, "provision"))
  return { ...scene, machine: operation.newRecipe! }
})

/** The deletion of exactly what is described now is admitted. */
const closed = (scene: Scene) =>
  Effect.gen(function* () {
    const { paths } = yield* describeProjectRemoval(scene.project)
    yield* admitDeletion(scene, paths)
  })

const receiptsOf = ({ project }: Scene) =>
  Effect.flatMap(OperationStore, (store) => store.newestOfProject(project, { limit: 20 }))

const deletionsOf = (scene: Scene) =>
  Effect.map(receiptsOf(scene), (all) => all.filter(({ requestKey }) => requestKey === removalRequestKey))

/** So many callers of the removal at once; answers when all of them wait for an operation to settle. */
const removingFor = (scene: Scene, callers: number) =>
  Effect.gen(function* () {
    const events = yield* OperationEvents
    let waiting = 0
    const subscribe = Effect.tap(events.subscribe, () => Effect.sync(() => (waiting += 1)))
    const removal = Effect.provideService(removeProject(scene.project), OperationEvents, {
      ...events,
      subscribe
    })
    const removing = yield* Effect.forkChild(
      Effect.all(
        Array.from({ length: callers }, () => removal),
        { concurrency: "unbounded" }
      )
    )
    yield* waitFor({
      fact: "every caller waits, or has ended",
      look: Effect.sync(() => waiting === callers || removing.pollUnsafe() !== undefined),
      holds: (isSo) => isSo
    })
    return removing
  })

/** Carries the removal out as the dispatcher would, once it is queued; answers what every caller got. */
const carriedOut = (scene: Scene, callers = 1) =>
  Effect.gen(function* () {
    const removing = yield* removingFor(scene, callers)
    yield* executeClaimed(yield* claim)
    return yield* Fiber.join(removing)
  })

/** Another daemon as the machine sees it: alive here, on another node, or gone. */
const otherDaemon = (given: Partial<ProcessIdentity>) =>
  Effect.map(Processes, ({ current }) => new ProcessIdentity({ ...current, daemon: randomUUID(), ...given }))

/** The same claim in the hands of another daemon. */
const heldBy = ({ id, rowId }: Operation, holder: ProcessIdentity) =>
  Effect.gen(function* () {
    yield* (yield* Clone).admin(
      "update plugin_sandbox.runtime_operations set claimed_by = $2 where row_id = $1::bigint",
      [BigInt(rowId), holder.toString()]
    )
    return yield* receiptOf(id)
  })

const foreign = [
  ["alive on this node", {}],
  ["on another node", { node: NodeId.make(randomUUID()) }]
] as const

layer(undispatched, { excludeTestServices: true, timeout: "60 seconds" })(
  "removal beside claimants",
  (it) => {
    for (const [where, given] of foreign) {
      it.effect(`SP-DEL-08 a claimant ${where} blocks it, and keeps what it has`, () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const holder = yield* otherDaemon(given)
          const stop = yield* ask(scene, "stop")
          // The queue is this node's; the claim is given its holder behind it.
          const held = yield* heldBy(yield* claim, holder)
          yield* closed(scene)
          const { guests } = yield* Scripted
          const calls = guests.calls.length
          const refused = yield* Effect.flip(removeProject(scene.project))
          assert.deepStrictEqual(
            [refused._tag, "operation" in refused ? refused.operation : null],
            ["RemovalBlocked", stop.id]
          )
          assert.deepStrictEqual({ ...(yield* receiptOf(stop.id)) }, { ...held })
          assert.deepStrictEqual(yield* deletionsOf(scene), [])
          assert.strictEqual(guests.calls.length, calls)
          assert.isTrue(existsSync(scene.machine.disks[0]!))
          assert.isTrue(yield* releaseClaim(held))
          const [removed] = yield* carriedOut(scene)
          assert.lengthOf(removed!.proofs, 1)
          assert.deepInclude(
            { ...(yield* receiptOf(stop.id)) },
            { state: "superseded", supersededBy: "system" }
          )
        })
      )
    }

    it.effect("SP-DEL-08 a dead claimant is waited for, until recovery has taken its claim", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const stop = yield* ask(scene, "stop")
        yield* heldBy(yield* claim, yield* otherDaemon({ startTicks: "1" }))
        yield* closed(scene)
        const removing = yield* removingFor(scene, 1)
        const { stolen } = yield* recoverClaims()
        assert.deepStrictEqual(
          stolen.map(({ id }) => id),
          [stop.id]
        )
        // The stop gives way, to a claim or to the removal that waited for it, and that one goes on by itself.
        const { current } = yield* Processes
        const claimed = yield* waitFor({
          fact: "the deletion is claimed",
          look: claimNext(current),
          holds: Option.isSome
        })
        const deletion = Option.getOrThrow(claimed)
        assert.strictEqual(deletion.requestKey, removalRequestKey)
        assert.strictEqual((yield* receiptOf(stop.id)).state, "superseded")
        yield* executeClaimed(deletion)
        assert.lengthOf((yield* Fiber.join(removing))[0]!.proofs, 1)
        assert.lengthOf(yield* deletionsOf(scene), 1)
      })
    )

    it.effect(
      "SP-DEL-08 work that nobody has begun is superseded, and the machines of its receipt go too",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const rebuild = yield* ask(scene, "rebuild")
          const cut = {
            before: (_: string, step: string) => (step === "boot" ? Effect.interrupt : Effect.void),
            after: () => Effect.void
          }
          yield* Effect.exit(Effect.provideService(executeClaimed(yield* claim), StepObserver, cut))
          assert.isTrue(yield* releaseClaim(yield* receiptOf(rebuild.id)))
          const { flags, newRecipe, oldRecipe } = yield* receiptOf(rebuild.id)
          yield* closed(scene)
          const [removed] = yield* carriedOut(scene)
          const receipt = yield* receiptOf(rebuild.id)
          assert.deepInclude(
            { ...receipt },
            { state: "superseded", errorCode: "superseded_by_removal", supersededBy: "system", owed: [] }
          )
          assert.deepStrictEqual(
            [receipt.flags, receipt.oldRecipe, receipt.newRecipe],
            [flags, oldRecipe, newRecipe]
          )
          for (const recipe of [scene.machine, newRecipe!]) {
            const named = removed!.proofs.filter((proof) => proof.startsWith(`${recipe.sandbox} `))
            assert.lengthOf(named, 1, machineOf(recipe))
            assert.isFalse((yield* (yield* Registry).inventory).has(recipe.sandbox))
          }
        })
    )

    it.effect("SP-DEL-09 its progress goes out step by step, to its end, as what the system does", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        yield* closed(scene)
        const watcher = yield* (yield* OperationEvents).subscribe
        yield* carriedOut(scene)
        const told = yield* PubSub.takeUpTo(watcher, 100)
        const [deletion] = yield* deletionsOf(scene)
        assert.isTrue(told.every(({ operation }) => operation === deletion?.id))
        assert.deepStrictEqual(
          [...new Set(told.map(({ action, state, step }) => [action, state, step].join(" ")))],
          [
            "delete claimed ",
            ...["stop", "guests", "storage", "records"].map((step) => `delete claimed ${step}`),
            "delete succeeded records"
          ]
        )
        assert.deepInclude({ ...deletion }, { initiator: "system", account: null })
      }).pipe(Effect.scoped)
    )

    for (const observed of RuntimeObserved.literals) {
      it.effect(`FC-08 a deletion is accepted from the state ${observed}, whatever was wanted`, () =>
        Effect.gen(function* () {
          for (const desired of ["running", "stopped", "deleted"]) {
            const scene = yield* provisioned
            yield* (yield* Clone).admin(
              "update plugin_sandbox.runtimes set observed = $2, desired = $3 where project_id = $1::bigint",
              [BigInt(scene.project), observed, desired]
            )
            yield* closed(scene)
            const [removed] = yield* carriedOut(scene)
            assert.lengthOf(removed!.proofs, 1)
            assert.isFalse(existsSync(scene.machine.disks[0]!))
            assert.isFalse((yield* (yield* Registry).inventory).has(scene.machine.sandbox))
          }
        })
      )
    }

    it.effect("SP-DEL-08 eight callers at once enqueue one deletion and get one answer", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        yield* closed(scene)
        const answers = yield* carriedOut(scene, 8)
        assert.lengthOf(yield* deletionsOf(scene), 1)
        for (const answer of answers) assert.deepStrictEqual(answer, answers[0])
        assert.lengthOf(answers[0]!.proofs, 1)
      })
    )
  }
)
