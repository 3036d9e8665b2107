/** Taking queued operations back, and what a waiting one waits for, on a real database. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Fiber from "effect/Fiber"
import * as PubSub from "effect/PubSub"
import { randomUUID } from "node:crypto"
import { NodeId, OperationId } from "../../../src/domain/Identity.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { claimNext, releaseClaim, saveOperation } from "../../../src/domain/operations/claims.ts"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import { OperationRows, OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { settleOperation } from "../../../src/domain/operations/settlement.ts"
import { supersedeOperation } from "../../../src/domain/operations/supersede.ts"
import { waitingOf } from "../../../src/domain/operations/waiting.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { holding, untilWaiting } from "../../infra/postgres/lockWaits.ts"
import {
  ask,
  fixture,
  newProject,
  nodeHere,
  provisioned,
  queued,
  queueFaults,
  receipt,
  rows,
  self,
  value
} from "../../infra/postgres/operationsFixture.ts"

const live = { excludeTestServices: true } as const

const statesOf = (id: OperationId) =>
  rows(
    "select state, error_code, superseded_by, settled_at is not null as settled from runtime_operations where id = $1::uuid",
    [id]
  )

const endAll = Effect.gen(function* () {
  for (;;) {
    const claimed = yield* claimNext(self)
    if (Option.isNone(claimed)) return
    yield* settleOperation(claimed.value, { state: "succeeded" })
  }
})

layer(fixture, live)("supersedeOperation", (it) => {
  it.effect(
    "FC-06 FC-22 a queued operation is superseded, its asker stays on the receipt, and it is published",
    () =>
      Effect.gen(function* () {
        const { caller, operation, project } = yield* queued
        const events = yield* OperationEvents
        const subscription = yield* events.subscribe
        const superseded = yield* supersedeOperation(caller, { id: operation.id, project })
        assert.deepInclude(superseded, { state: "superseded", supersededBy: caller.account })
        assert.deepStrictEqual(yield* statesOf(operation.id), [
          {
            state: "superseded",
            error_code: "superseded_by_user",
            superseded_by: caller.account,
            settled: true
          }
        ])
        const published = yield* PubSub.take(subscription)
        assert.deepInclude(published, { operation: operation.id, state: "superseded" })
        assert.strictEqual(yield* queueFaults, 0)
        assert.isTrue(Option.isNone(yield* claimNext(self)))
        // The runtime is free again.
        yield* admitOperation(caller, ask(project))
        yield* endAll
      }).pipe(Effect.scoped)
  )

  it.effect("FC-06 asking again answers the receipt, and the first asker stays on it", () =>
    Effect.gen(function* () {
      const { caller, operation, project, viewer } = yield* queued
      yield* supersedeOperation(caller, { id: operation.id, project })
      yield* rows("update core.memberships set role = 'owner' where account_id = $1::uuid", [viewer.account])
      const again = yield* supersedeOperation(viewer, { id: operation.id, project })
      assert.strictEqual(again.supersededBy, caller.account)
    })
  )

  it.effect("FC-06 SP-ADM-04 nobody without write access takes anything back", () =>
    Effect.gen(function* () {
      const { operation, project, viewer } = yield* queued
      const stranger = (yield* newProject).caller
      for (const caller of [viewer, stranger]) {
        const refused = yield* Effect.flip(supersedeOperation(caller, { id: operation.id, project }))
        assert.strictEqual(refused._tag, "AccessRefused")
      }
      assert.strictEqual((yield* statesOf(operation.id))[0]?.state, "queued")
      yield* endAll
    })
  )

  it.effect("FC-06 what is at work or settled is refused as it is, and one that does not exist is told", () =>
    Effect.gen(function* () {
      const { caller, operation, project } = yield* queued
      const claimed = Option.getOrThrow(yield* claimNext(self))
      const atWork = yield* Effect.flip(supersedeOperation(caller, { id: operation.id, project }))
      assert.deepInclude(atWork, { code: "operation_not_queued", state: "claimed" })
      yield* settleOperation(claimed, { state: "failed", code: "broken", text: "it broke" })
      const settled = yield* Effect.flip(supersedeOperation(caller, { id: operation.id, project }))
      assert.deepInclude(settled, { code: "operation_not_queued", state: "failed" })
      const id = OperationId.make(randomUUID())
      assert.deepInclude(yield* Effect.flip(supersedeOperation(caller, { id, project })), {
        code: "operation_not_found"
      })
    })
  )

  it.effect("FC-06 SP-DEL-11 the operation of a deletion is the deletion's", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      yield* provisioned(project)
      const row = yield* receipt(project, { state: "queued", action: "delete", initiator: "system" })
      const id = OperationId.make(
        (yield* value("select id from runtime_operations where row_id = $1::bigint", [row])) as string
      )
      const refused = yield* Effect.flip(supersedeOperation(caller, { id, project }))
      assert.deepInclude(refused, { code: "operation_not_queued", action: "delete" })
      assert.include(refused.message, "deletion")
      yield* endAll
    })
  )

  it.effect(
    "FC-06 SP-OPS-02 of a claim and a taking back at once exactly one wins, and the other says so",
    () =>
      Effect.gen(function* () {
        const outcomes: Array<string> = []
        for (let round = 0; round < 40; round += 1) {
          const { caller, operation, project } = yield* queued
          const [claimed, taken] = yield* Effect.all(
            [claimNext(self), Effect.result(supersedeOperation(caller, { id: operation.id, project }))],
            { concurrency: "unbounded" }
          )
          assert.notStrictEqual(Option.isSome(claimed), taken._tag === "Success", "one of the two")
          outcomes.push(taken._tag)
          yield* endAll
        }
        assert.strictEqual(yield* queueFaults, 0)
      })
  )

  it.effect(
    "FC-06 SP-OPS-02 a taking back that meets a claim half way waits for it, and finds it at work",
    () =>
      Effect.gen(function* () {
        const { caller, operation, project } = yield* queued
        const claim = yield* holding(
          `update runtime_operations set state = 'claimed', claimed_by = $2::text, claim_sequence = 1, claimed_at = now()
          where id = $1::uuid`,
          [operation.id, self.toString()]
        )
        const taking = yield* Effect.forkChild(
          Effect.flip(supersedeOperation(caller, { id: operation.id, project }))
        )
        yield* untilWaiting("runtime_operations", 1)
        yield* claim.release
        assert.deepInclude(yield* Fiber.join(taking), { code: "operation_not_queued", state: "claimed" })
        assert.strictEqual((yield* statesOf(operation.id))[0]?.state, "claimed")
        assert.strictEqual(yield* queueFaults, 0)
        yield* rows("update runtime_operations set state = 'queued', claimed_by = null where id = $1::uuid", [
          operation.id
        ])
        yield* endAll
      })
  )

  it.effect("FC-06 FC-13 what waits for a node that is never seen again says so, and is taken back", () =>
    Effect.gen(function* () {
      const gone = NodeId.make(randomUUID())
      yield* rows("insert into nodes values ($1::uuid, 'build-7', now() - interval '1 hour')", [gone])
      const { caller, project } = yield* newProject
      yield* provisioned(project)
      yield* rows("update runtimes set node_id = $2::uuid where project_id = $1::bigint", [project, gone])
      const { operation } = yield* admitOperation(caller, ask(project))
      assert.isTrue(Option.isNone(yield* claimNext(self)))
      const [sight] = yield* (yield* OperationRows).queueSights([operation.id])
      const waiting = waitingOf(operation, sight)
      assert.deepInclude(waiting, { kind: "node", sinceMillis: operation.createdAtMillis })
      assert.include(waiting?.for, "node build-7, which carries its machine")
      yield* supersedeOperation(caller, { id: operation.id, project })
      assert.strictEqual(yield* queueFaults, 0)
    })
  )

  it.effect("FC-22 the other ways of superseding say who it was", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      yield* provisioned(project, "failed")
      const recovery = yield* admitOperation("system", ask(project, { action: "recover" }))
      yield* admitOperation(caller, ask(project, { action: "stop" }))
      assert.deepInclude((yield* statesOf(recovery.operation.id))[0], {
        error_code: "superseded_by_request",
        superseded_by: caller.account
      })
      const closed = yield* queued
      yield* rows("update core.projects set lifecycle = 'deleting' where id = $1::bigint", [closed.project])
      yield* endAll
      assert.deepInclude((yield* statesOf(closed.operation.id))[0], {
        state: "superseded",
        superseded_by: "system"
      })
    })
  )
})

layer(fixture, live)("queueSights", (it) => {
  const sightsOf = (...ids: ReadonlyArray<OperationId>) =>
    Effect.flatMap(OperationRows, (operations) => operations.queueSights(ids))

  it.effect(
    "FC-06 a queued operation is seen with its node, when that was last seen, and what is ahead",
    () =>
      Effect.gen(function* () {
        yield* (yield* RuntimeStore).registerNode({ id: nodeHere, name: "here" })
        const one = yield* queued
        const two = yield* queued
        const [first, second] = yield* Effect.all([sightsOf(one.operation.id), sightsOf(two.operation.id)])
        assert.deepStrictEqual([first[0]?.ahead, second[0]?.ahead], [0, 1])
        assert.strictEqual(first[0]?.node?.id, nodeHere)
        assert.strictEqual(first[0]?.node?.name, "here")
        assert.isBelow(first[0]?.node?.unseenSeconds ?? 99, 30)
        assert.strictEqual(first[0]?.queuedAtMillis, one.operation.createdAtMillis)

        yield* rows("update nodes set last_seen_at = now() - interval '2 minutes' where id = $1::uuid", [
          nodeHere
        ])
        const late = (yield* sightsOf(one.operation.id))[0]
        assert.isAtLeast(late?.node?.unseenSeconds ?? 0, 119)
        // The heartbeat of the node makes it seen again.
        yield* (yield* RuntimeStore).registerNode({ id: nodeHere, name: "here" })
        assert.isBelow((yield* sightsOf(one.operation.id))[0]?.node?.unseenSeconds ?? 99, 30)
        yield* endAll
      })
  )

  it.effect(
    "FC-06 a claimed one is looked for at its claimant's node, and what other nodes wait for is not ahead",
    () =>
      Effect.gen(function* () {
        const there = NodeId.make(randomUUID())
        yield* rows("insert into nodes (id, name) values ($1::uuid, 'there')", [there])
        const foreign = yield* newProject
        const recipe = yield* provisioned(foreign.project)
        yield* rows("update runtimes set node_id = $2::uuid where project_id = $1::bigint", [
          foreign.project,
          there
        ])
        assert.isDefined(recipe)
        const elsewhere = yield* admitOperation(foreign.caller, ask(foreign.project))
        const scene = yield* newProject
        const mine = yield* admitOperation(scene.caller, ask(scene.project, { action: "provision" }))
        const [sight] = yield* sightsOf(mine.operation.id)
        assert.deepStrictEqual([sight?.node, sight?.ahead], [null, 0])
        const claimed = Option.getOrThrow(yield* claimNext(self))
        assert.strictEqual((yield* sightsOf(claimed.id))[0]?.node?.id, self.node)
        yield* saveOperation(claimed, { step: "image", fraction: 0, message: null, flags: [] })
        yield* releaseClaim(claimed)
        assert.lengthOf(yield* sightsOf(elsewhere.operation.id, mine.operation.id), 2)
        yield* endAll
        assert.lengthOf(yield* sightsOf(mine.operation.id), 0)
        assert.isTrue(Option.isSome(yield* (yield* OperationStore).byId(elsewhere.operation.id)))
      })
  )
})
