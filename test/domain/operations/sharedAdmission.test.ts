import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type { Asker } from "../../../src/domain/host/Accounts.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { admitOperationStepwise } from "../../../src/domain/operations/admissionStepwise.ts"
import type { OperationAction, OperationRequest } from "../../../src/domain/operations/Operation.ts"
import { HandleMisuse } from "../../../src/domain/persistence/PluginDb.ts"
import { RequestKey } from "../../../src/domain/Identity.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { holding, untilWaiting } from "../../infra/postgres/lockWaits.ts"
import {
  type Admit,
  ask,
  fixture,
  newProject,
  provisioned,
  queueFaults,
  rows,
  type Scene,
  stored,
  value
} from "../../infra/postgres/operationsFixture.ts"
import { makeSeededRandom } from "../../support/seededRandom.ts"
import { generation } from "./builders.ts"

const live = { excludeTestServices: true } as const

const machine = Effect.gen(function* () {
  const scene = yield* newProject
  yield* provisioned(scene.project)
  return scene
})

/** While it is held, one caller waits alone, so that all others share statements. */
const stalled = Effect.gen(function* () {
  const { caller, project } = yield* machine
  const holder = yield* holding("select 1 from core.projects where id = $1::bigint for update", [project])
  const waiting = yield* Effect.forkChild(admitOperation(caller, ask(project)))
  yield* untilWaiting("core.projects", 1)
  return { project, waiting, release: Effect.andThen(holder.release, Fiber.join(waiting)) }
})

/** How many of the Projects' operations were written by how many transactions. */
const writers = (scenes: ReadonlyArray<Scene>) =>
  rows(
    `select count(*)::int as operations, count(distinct xmin::text)::int as transactions from runtime_operations
      where project_id = any ($1::bigint[])`,
    [scenes.map(({ project }) => BigInt(project))]
  ).pipe(Effect.map(([row]) => ({ ...row })))

type By = "caller" | "viewer" | "system"
interface Asked {
  readonly by: By
  readonly request: Omit<OperationRequest, "project">
}

const actions: ReadonlyArray<OperationAction> = ["provision", "start", "stop", "rebuild", "recover"]

/** Something that may have happened to a Project between two requests, the same in every form. */
const events = [
  "update runtimes set generation = generation + 1 where project_id = $1::bigint",
  "update runtimes set observed = 'deleted' where project_id = $1::bigint",
  "update runtimes set observed = 'failed' where project_id = $1::bigint",
  "update core.projects set lifecycle = 'deleting' where id = $1::bigint",
  "update core.projects set lifecycle = 'active' where id = $1::bigint",
  "delete from core.memberships where project_id = $1::bigint and role = 'owner'",
  ...(["succeeded", "failed"] as const).map(
    (state) => `with ended as (
      update runtime_operations set state = '${state}', settled_at = now()
        where project_id = $1::bigint and state = 'queued' returning row_id
    ) delete from live_operations where row_id in (select row_id from ended)`
  )
]

const answerOf = (admit: Admit, scene: Scene, { by, request }: Asked) => {
  const asker: Asker = by === "system" ? by : scene[by]
  return Effect.map(Effect.result(admit(asker, { ...request, project: scene.project })), (result) => {
    if (result._tag === "Success") {
      const { operation, outcome } = result.success
      const { action, claimSequence, flags, initiator, parameters, state } = operation
      const { errorCode, fraction, generation: at, owed, requestKey, supersededBy } = operation
      const isNew =
        operation.createdAtMillis > 0 && operation.rowId > 0 && operation.project === scene.project
      const told: ReadonlyArray<unknown> = [
        outcome,
        action,
        claimSequence,
        flags,
        initiator,
        parameters,
        state
      ]
      return [...told, errorCode, fraction, at, owed, requestKey, supersededBy, isNew]
    }
    return [result.failure._tag]
  })
}

describe("admissions that share a statement", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect.each([1, 2, 3, 4])(
      "SP-ADM-01 SP-ADM-07 SP-ADM-08 SP-ADM-09 seed %s: together, alone and in steps the same requests get the same",
      (seed) =>
        Effect.gen(function* () {
          const random = makeSeededRandom(seed)
          const forms = yield* Effect.forEach([0, 1, 2], () =>
            Effect.forEach(Array.from({ length: 12 }), (_, at) => (at % 4 === 0 ? newProject : machine))
          )
          const asks = (): Asked => ({
            by: random.pick(["caller", "caller", "caller", "system", "viewer"]),
            request: {
              action: random.pick(actions),
              requestKey: RequestKey.make(`key-${random.below(3)}`),
              expectedGeneration: random.below(3) === 0 ? generation(1 + random.below(2)) : null,
              parameters: {}
            }
          })
          const hold = yield* stalled
          for (let wave = 0; wave < 8; wave += 1) {
            const asked = forms[0]!.map(asks)
            const happens = forms[0]!.map(() => (random.below(3) === 0 ? random.pick(events) : null))
            const play = (form: number, admit: Admit, concurrency: number | "unbounded") =>
              Effect.gen(function* () {
                const scenes = forms[form]!
                const answers = yield* Effect.forEach(
                  scenes,
                  (scene, at) => answerOf(admit, scene, asked[at]!),
                  {
                    concurrency
                  }
                )
                const left = yield* Effect.forEach(scenes, ({ project }) => stored(project))
                yield* Effect.forEach(scenes, ({ project }, at) =>
                  happens[at] === null ? Effect.void : rows(happens[at]!, [project])
                )
                return { answers, left }
              })
            const together = yield* play(0, admitOperation, "unbounded")
            assert.deepStrictEqual(together, yield* play(1, admitOperation, 1))
            assert.deepStrictEqual(together, yield* play(2, admitOperationStepwise, 1))
          }
          yield* hold.release
          assert.strictEqual(yield* queueFaults, 0)
        }),
      30_000
    )

    it.effect("SP-ADM-03 a Project row held by another stalls only its own callers", () =>
      Effect.gen(function* () {
        const hold = yield* stalled
        const second = yield* machine
        const holder = yield* holding("select 1 from core.projects where id = $1::bigint for update", [
          second.project
        ])
        const scenes = yield* Effect.forEach(Array.from({ length: 30 }), () => machine)
        // Among the others: left out of their statement, and waiting by itself.
        const left = yield* Effect.forkChild(admitOperation(second.caller, ask(second.project)))
        const admitted = yield* Effect.forEach(
          scenes,
          ({ caller, project }) => admitOperation(caller, ask(project)),
          { concurrency: "unbounded" }
        ).pipe(Effect.timeout("5 seconds"))
        assert.isTrue(admitted.every(({ outcome }) => outcome === "admitted"))
        yield* untilWaiting("core.projects", 2)
        assert.isUndefined(hold.waiting.pollUnsafe())
        assert.isUndefined(left.pollUnsafe())
        const { transactions } = yield* writers(scenes)
        assert.isBelow(Number(transactions), 10)
        yield* holder.release
        assert.strictEqual((yield* Fiber.join(left)).outcome, "admitted")
        assert.strictEqual((yield* hold.release).outcome, "admitted")
      })
    )

    it.effect("SP-ADM-02 a runtime row held by another stalls only its own callers", () =>
      Effect.gen(function* () {
        const hold = yield* stalled
        const busy = yield* machine
        const holder = yield* holding("select 1 from runtimes where project_id = $1::bigint for update", [
          busy.project
        ])
        const scenes = yield* Effect.forEach(Array.from({ length: 10 }), () => machine)
        const left = yield* Effect.forkChild(admitOperation(busy.caller, ask(busy.project)))
        yield* Effect.forEach(scenes, ({ caller, project }) => admitOperation(caller, ask(project)), {
          concurrency: "unbounded"
        }).pipe(Effect.timeout("5 seconds"))
        yield* untilWaiting("runtimes", 1)
        yield* holder.release
        yield* Fiber.join(left)
        yield* hold.release
      })
    )

    it.effect("SP-ADM-04 one refused admission fails only its own caller, whatever it is refused with", () =>
      Effect.gen(function* () {
        const hold = yield* stalled
        const scenes = yield* Effect.forEach(Array.from({ length: 12 }), () => machine)
        const [viewed, closed, odd, gone] = scenes as [Scene, Scene, Scene, Scene]
        yield* rows("update core.projects set lifecycle = 'deleting' where id = $1::bigint", [closed.project])
        const told = yield* Effect.forEach(
          scenes,
          (scene) =>
            Effect.result(
              admitOperation(
                scene === viewed ? scene.viewer : scene === gone ? viewed.caller : scene.caller,
                ask(scene.project, scene === odd ? { expectedGeneration: generation(7) } : {})
              )
            ),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(
          told.slice(0, 4).map((result) => (result._tag === "Failure" ? result.failure._tag : "")),
          ["AccessRefused", "ProjectNotActive", "GenerationConflict", "AccessRefused"]
        )
        assert.isTrue(told.slice(4).every(({ _tag }) => _tag === "Success"))
        // So many go in two statements.
        assert.deepStrictEqual(yield* writers(scenes), { operations: 8, transactions: 2 })
        yield* hold.release
      })
    )

    it.effect("SP-ADM-09 of sixteen callers of one Project one is admitted, and fifteen are told of it", () =>
      Effect.gen(function* () {
        const hold = yield* stalled
        const { caller, project } = yield* machine
        const told = yield* Effect.forEach(
          Array.from({ length: 16 }),
          () => Effect.result(admitOperation(caller, ask(project))),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(told.filter(({ _tag }) => _tag === "Success").length, 1)
        assert.strictEqual(
          told.filter((result) => result._tag === "Failure" && result.failure._tag === "OperationInProgress")
            .length,
          15
        )
        assert.strictEqual(yield* queueFaults, 0)
        yield* hold.release
      })
    )

    it.effect("FC-13 an operation admitted with others is for the node that carries its machine", () =>
      Effect.gen(function* () {
        const hold = yield* stalled
        const scenes = yield* Effect.forEach([0, 1, 2], () => machine)
        yield* Effect.forEach(scenes, ({ caller, project }) => admitOperation(caller, ask(project)), {
          concurrency: "unbounded"
        })
        assert.strictEqual(
          yield* value(
            `select count(*)::int from live_operations l join runtimes r using (project_id)
              where l.project_id = any ($1::bigint[]) and l.node_id = r.node_id`,
            [scenes.map(({ project }) => BigInt(project))]
          ),
          3
        )
        yield* hold.release
      })
    )

    it.effect(
      "SP-TX-02 an admission inside a transaction is a mistake, also while others share statements",
      () =>
        Effect.gen(function* () {
          const hold = yield* stalled
          const { caller, project } = yield* machine
          const store = yield* RuntimeStore
          const context = yield* Effect.context<Effect.Services<ReturnType<typeof admitOperation>>>()
          const exit = yield* Effect.exit(
            store.transaction("test", () =>
              Effect.provideContext(admitOperation(caller, ask(project)), context).pipe(Effect.orDie)
            )
          )
          const [reason] = exit._tag === "Failure" ? exit.cause.reasons : []
          assert.instanceOf(reason?._tag === "Die" ? reason.defect : undefined, HandleMisuse)
          assert.isTrue(Option.isNone(Option.fromNullishOr((yield* stored(project)).operations[0])))
          yield* hold.release
        })
    )
  })
})
