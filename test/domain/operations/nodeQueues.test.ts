/** Which node an operation waits for: the one that carries its machine, or any as long as none does. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import { Generation, NodeId } from "../../../src/domain/Identity.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { admitOperationStepwise } from "../../../src/domain/operations/admissionStepwise.ts"
import { claimNext, releaseClaim, saveOperation } from "../../../src/domain/operations/claims.ts"
import { recoverClaims } from "../../../src/domain/operations/recovery.ts"
import { settleOperation } from "../../../src/domain/operations/settlement.ts"
import { MachineRecipe } from "../../../src/domain/runtimes/Runtime.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import {
  ask,
  daemon,
  fixture,
  machineWith,
  newProject,
  provisioned,
  queueFaults,
  recipeOf,
  rows,
  self,
  stores
} from "../../infra/postgres/operationsFixture.ts"

const live = { excludeTestServices: true } as const
const admissions = [
  ["in one statement", admitOperation],
  ["step by step", admitOperationStepwise]
] as const

const first = Generation.make(1)
const elsewhere = NodeId.make("00000000-0000-4000-8000-00000000000e")
const foreign = daemon(9, { node: elsewhere })

const knowElsewhere = rows("insert into nodes (id, name) values ($1::uuid, 'there') on conflict do nothing", [
  elsewhere
])

const recipeThere = () => new MachineRecipe({ ...recipeOf(1), node: elsewhere })

/** A Project of its own whose provision was claimed by the other node, and marked as making a machine there. */
const beingMadeThere = Effect.gen(function* () {
  yield* knowElsewhere
  const { caller, project } = yield* newProject
  const request = ask(project, { action: "provision" })
  yield* admitOperation(caller, request)
  const claimed = Option.getOrThrow(yield* claimNext(foreign))
  const recipe = recipeThere()
  const saved = yield* saveOperation(claimed, {
    step: "image",
    fraction: 0,
    message: null,
    flags: ["creating"],
    newRecipe: recipe
  })
  return { caller, claimed: saved, project, recipe, request }
})

layer(fixture, live)("queues of nodes", (it) => {
  for (const [way, admit] of admissions) {
    it.effect(
      `FC-13 SP-OPS-02 an operation admitted ${way} is claimed by the node that carries its machine, and by no other`,
      () =>
        Effect.gen(function* () {
          const { caller, project } = yield* newProject
          yield* provisioned(project)
          const { operation } = yield* admit(caller, ask(project))
          assert.isTrue(Option.isNone(yield* claimNext(foreign)))
          const claimed = Option.getOrThrow(yield* claimNext(self))
          assert.strictEqual(claimed.id, operation.id)
          yield* settleOperation(claimed, { state: "succeeded" })
        })
    )

    it.effect(`FC-13 what is admitted ${way} for a Project without a machine is for any node`, () =>
      Effect.gen(function* () {
        const { caller, project } = yield* newProject
        const { operation } = yield* admit(caller, ask(project, { action: "provision" }))
        const claimed = Option.getOrThrow(yield* claimNext(foreign))
        assert.strictEqual(claimed.id, operation.id)
        yield* settleOperation(claimed, { state: "succeeded" })
      })
    )

    it.effect(`FC-13 SP-OPS-03 a provision that failed there, armed again ${way}, goes on there`, () =>
      Effect.gen(function* () {
        const { caller, claimed, request } = yield* beingMadeThere
        yield* settleOperation(claimed, { state: "failed", code: "broken", text: "it broke" })
        yield* admit(caller, request)
        assert.isTrue(Option.isNone(yield* claimNext(self)))
        const again = Option.getOrThrow(yield* claimNext(foreign))
        assert.strictEqual(again.id, claimed.id)
        yield* settleOperation(again, { state: "succeeded" })
      })
    )
  }

  it.effect(
    "FC-13 SP-OPS-03 a provision whose machine has been recorded is given back to the node of the machine",
    () =>
      Effect.gen(function* () {
        const { claimed, project, recipe } = yield* beingMadeThere
        const runtimes = yield* RuntimeStore
        assert.isTrue(yield* runtimes.saveRecipe(project, { generation: first, recipe }))
        yield* releaseClaim(claimed)
        assert.isTrue(Option.isNone(yield* claimNext(self)))
        const again = Option.getOrThrow(yield* claimNext(foreign))
        yield* settleOperation(again, { state: "succeeded" })
        assert.strictEqual(yield* queueFaults, 0)
      })
  )

  it.effect("FC-13 an operation follows its machine to another node when the machine is replaced", () =>
    Effect.gen(function* () {
      yield* knowElsewhere
      const { caller, project } = yield* newProject
      yield* provisioned(project)
      const { operation } = yield* admitOperation(caller, ask(project))
      const recipe = new MachineRecipe({ ...recipeThere(), generation: Generation.make(2) })
      assert.isTrue(yield* (yield* RuntimeStore).replaceMachine(project, { from: first, recipe }))
      assert.isTrue(Option.isNone(yield* claimNext(self)))
      const claimed = Option.getOrThrow(yield* claimNext(foreign))
      assert.strictEqual(claimed.id, operation.id)
      yield* settleOperation(claimed, { state: "succeeded" })
    })
  )

  it.effect(
    "SP-OPS-02 the oldest of both queues comes first: the node's own, and the one of every node",
    () =>
      Effect.gen(function* () {
        const machined = Effect.gen(function* () {
          const { caller, project } = yield* newProject
          yield* provisioned(project)
          return yield* admitOperation(caller, ask(project))
        })
        const unmachined = Effect.gen(function* () {
          const { caller, project } = yield* newProject
          return yield* admitOperation(caller, ask(project, { action: "provision" }))
        })
        const asked = yield* Effect.forEach([machined, unmachined, machined, unmachined], (each) => each)
        for (const { operation } of asked) {
          const claimed = Option.getOrThrow(yield* claimNext(self))
          assert.strictEqual(claimed.id, operation.id)
          yield* settleOperation(claimed, { state: "succeeded" })
        }
      })
  )

  it.effect("FC-13 recovery of a node does not read the claims on another node's machines", () =>
    Effect.gen(function* () {
      const { claimed, project, recipe } = yield* beingMadeThere
      const recover = recoverClaims().pipe(
        Effect.provide(stores.pipe(Layer.provideMerge(machineWith(self, [self]))))
      )
      assert.strictEqual((yield* recover).left, 1)
      yield* (yield* RuntimeStore).saveRecipe(project, { generation: first, recipe })
      assert.strictEqual((yield* recover).left, 0)
      yield* settleOperation(claimed, { state: "succeeded" })
    })
  )
})

layer(fixture, live)("a machine of another node", (it) => {
  it.effect("FC-13 is claimed nowhere as long as its node does not ask", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      yield* knowElsewhere
      const recipe = recipeThere()
      yield* rows(
        `insert into runtimes (project_id, node_id, sandbox_id, observed, recipe)
          values ($1::bigint, $2::uuid, $3::text, 'running', $4::text::jsonb)`,
        [project, elsewhere, recipe.sandbox, JSON.stringify({ ...recipe })]
      )
      const { operation } = yield* admitOperation(caller, ask(project, { action: "stop" }))
      for (const process of [self, daemon(10), daemon(11, { node: NodeId.make(randomUUID()) })]) {
        assert.isTrue(Option.isNone(yield* claimNext(process)))
      }
      assert.strictEqual(Option.getOrThrow(yield* claimNext(foreign)).id, operation.id)
    })
  )
})
