/** Taking back what a node holds that is not seen any more: a mark, since a claim that may be alive is never stolen. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as PubSub from "effect/PubSub"
import { randomUUID } from "node:crypto"
import { NodeId, OperationId } from "../../../src/domain/Identity.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { admitOperationStepwise } from "../../../src/domain/operations/admissionStepwise.ts"
import { claimNext, releaseClaim, saveOperation } from "../../../src/domain/operations/claims.ts"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import { OperationRows, OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { settleOperation } from "../../../src/domain/operations/settlement.ts"
import { supersedeOperation } from "../../../src/domain/operations/supersede.ts"
import { waitingOf } from "../../../src/domain/operations/waiting.ts"
import { explainOperation } from "../../../src/domain/operations/why.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import {
  ask,
  daemon,
  fixture,
  newProject,
  provisioned,
  queueFaults,
  receipt,
  rows,
  value
} from "../../infra/postgres/operationsFixture.ts"

/** A start that a daemon of a node has claimed which was seen last an hour ago. */
const heldUnseen = Effect.gen(function* () {
  const node = NodeId.make(randomUUID())
  yield* rows("insert into nodes values ($1::uuid, 'build-7', now() - interval '1 hour')", [node])
  const scene = yield* newProject
  yield* provisioned(scene.project)
  yield* rows("update runtimes set node_id = $2::uuid where project_id = $1::bigint", [scene.project, node])
  const asked = ask(scene.project)
  const { operation } = yield* admitOperation(scene.caller, asked)
  const holder = daemon(7, { node })
  const claim = Option.getOrThrow(yield* claimNext(holder))
  const held = yield* saveOperation(claim, { step: "boot", fraction: 0.5, message: null, flags: [] })
  return { ...scene, asked, holder, held, id: operation.id, node }
})

const operationOf = (id: OperationId) =>
  Effect.flatMap(OperationStore, (store) => Effect.map(store.byId(id), Option.getOrThrow))

layer(fixture, { excludeTestServices: true })("supersedeOperation of an unseen node's claim", (it) => {
  it.effect("FC-06 SP-OPS-02 it is marked and stays claimed, the first asker stays, and why says so", () =>
    Effect.gen(function* () {
      const { caller, held, id, project, viewer } = yield* heldUnseen
      const refused = yield* Effect.flip(supersedeOperation(viewer, { id, project }))
      assert.strictEqual(refused._tag, "AccessRefused")
      assert.isNull((yield* operationOf(id)).supersedeAskedBy)

      const marked = yield* supersedeOperation(caller, { id, project })
      assert.deepStrictEqual({ ...marked }, { ...held, supersedeAskedBy: caller.account })
      yield* rows("update core.memberships set role = 'owner' where account_id = $1::uuid", [viewer.account])
      const again = yield* supersedeOperation(viewer, { id, project })
      assert.strictEqual(again.supersedeAskedBy, caller.account)

      const operation = yield* operationOf(id)
      const [sight] = yield* (yield* OperationRows).queueSights([id])
      const waiting = waitingOf(operation, sight)
      assert.include(waiting?.for, "node build-7, whose daemon has claimed it")
      const end = explainOperation({ operation, waiting, lines: [] }).at(-1)
      assert.deepInclude(end, { step: "end", actor: caller.account })
      assert.include(end?.told, "asked to take it back")
      assert.strictEqual(yield* queueFaults, 0)
    })
  )

  it.effect("FC-06 FC-22 once the claim comes back nobody goes on with it, and it is published", () =>
    Effect.gen(function* () {
      const { caller, held, holder, id, project } = yield* heldUnseen
      yield* supersedeOperation(caller, { id, project })
      assert.isTrue(yield* releaseClaim(held))
      const subscription = yield* (yield* OperationEvents).subscribe
      assert.isTrue(Option.isNone(yield* claimNext(holder)))
      assert.deepInclude(yield* PubSub.take(subscription), { operation: id, state: "superseded" })
      assert.deepInclude(yield* operationOf(id), {
        state: "superseded",
        supersededBy: caller.account,
        errorCode: "superseded_by_user",
        claimSequence: held.claimSequence
      })
      assert.strictEqual(yield* queueFaults, 0)
      // The runtime is free again.
      assert.strictEqual((yield* admitOperation(caller, ask(project))).outcome, "admitted")
    }).pipe(Effect.scoped)
  )

  it.effect("FC-06 SP-OPS-06 a holder that was only out of sight settles as if nobody had asked", () =>
    Effect.gen(function* () {
      const { caller, held, id, project } = yield* heldUnseen
      yield* supersedeOperation(caller, { id, project })
      const saved = yield* saveOperation(held, { step: "ready", fraction: 0.9, message: null, flags: [] })
      yield* settleOperation(saved, { state: "succeeded" })
      assert.deepInclude(yield* operationOf(id), { state: "succeeded", supersededBy: null })
    })
  )

  it.effect("FC-06 a node that is seen holds what it holds: nothing is marked", () =>
    Effect.gen(function* () {
      const { caller, id, node, project } = yield* heldUnseen
      yield* (yield* RuntimeStore).registerNode({ id: node, name: "build-7" })
      const refused = yield* Effect.flip(supersedeOperation(caller, { id, project }))
      assert.deepInclude(refused, { code: "operation_not_queued", state: "claimed" })
      assert.isNull((yield* operationOf(id)).supersedeAskedBy)
    })
  )

  it.effect("FC-06 SP-DEL-11 the operation of a deletion is not marked", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      yield* provisioned(project)
      const claimedBy = daemon(8, { node: NodeId.make(randomUUID()) }).toString()
      const row = yield* receipt(project, {
        state: "claimed",
        action: "delete",
        initiator: "system",
        claimedBy
      })
      const id = OperationId.make(
        (yield* value("select id from runtime_operations where row_id = $1::bigint", [row])) as string
      )
      const refused = yield* Effect.flip(supersedeOperation(caller, { id, project }))
      assert.deepInclude(refused, { code: "operation_not_queued", action: "delete" })
      assert.isNull((yield* operationOf(id)).supersedeAskedBy)
    })
  )

  for (const [form, admit] of [
    ["one statement", admitOperation],
    ["step by step", admitOperationStepwise]
  ] as const) {
    it.effect(`FC-06 a failed one that is asked for again is marked no more: ${form}`, () =>
      Effect.gen(function* () {
        const { asked, caller, held, holder, id, project } = yield* heldUnseen
        yield* supersedeOperation(caller, { id, project })
        yield* settleOperation(held, { state: "failed", code: "broken", text: "it broke" })
        const again = yield* admit(caller, asked)
        assert.deepInclude(again, { outcome: "rearmed" })
        assert.isNull(again.operation.supersedeAskedBy)
        assert.strictEqual(Option.getOrThrow(yield* claimNext(holder)).id, id)
      })
    )
  }
})
