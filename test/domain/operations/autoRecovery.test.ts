/** Automatic recovery over scripted guests and a real database, whose time is moved by moving what was written. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { reconcilePageRows } from "../../../src/domain/Bounds.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { Processes } from "../../../src/domain/Processes.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { recoverRuntimes } from "../../../src/domain/operations/autoRecovery.ts"
import { reconcileRuntimes } from "../../../src/domain/runtimes/reconciliation.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { endByItself, failNext } from "../../../src/infra/guests/scriptedState.ts"
import { Clone } from "../../support/clone.ts"
import { newProject, requestOf, type Scene, Scripted, undispatched } from "../removal/fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

const runtimeOf = ({ project }: Scene) =>
  Effect.flatMap(RuntimeStore, (store) => Effect.map(store.runtime(project), Option.getOrThrow))

/** Carries out whatever is queued. */
const work = Effect.gen(function* () {
  const { current } = yield* Processes
  for (;;) {
    const claimed = yield* claimNext(current)
    if (Option.isNone(claimed)) return
    yield* executeClaimed(claimed.value)
  }
})

const carryOut = (scene: Scene, action: Parameters<typeof requestOf>[1]) =>
  Effect.andThen(admitOperation(scene.caller, requestOf(scene.project, action)), work)

const provisioned = Effect.tap(newProject, (scene) => carryOut(scene, "provision"))

/** What the sweep does: looks at the guests, says what they became, and recovers. */
const sweep = Effect.gen(function* () {
  const { node } = yield* Registry
  yield* reconcileSandboxes
  yield* reconcileRuntimes(() => false)
  yield* recoverRuntimes(node)
})

const endGuest = (scene: Scene) =>
  Effect.gen(function* () {
    endByItself((yield* Scripted).guests, (yield* runtimeOf(scene)).sandbox!, 1)
  })

const recoveriesOf = ({ project }: Scene) =>
  Effect.map(
    Effect.flatMap(OperationStore, (store) => store.newestOfProject(project, { limit: 50 })),
    (all) =>
      all.filter(({ action }) => action === "recover").map(({ initiator, state }) => `${initiator} ${state}`)
  )

const remembered = ({ project }: Scene) =>
  Effect.flatMap(Clone, ({ admin }) =>
    Effect.map(
      admin(
        `select recovery_attempts as attempts, recovery_due_at is not null as is_due,
          round(extract(epoch from recovery_due_at - now()))::int as due_in from plugin_sandbox.runtimes
          where project_id = $1::bigint`,
        [BigInt(project)]
      ),
      ([row]) => row!
    )
  )

const move = ({ project }: Scene, column: "recovery_due_at" | "running_since", seconds: number) =>
  Effect.flatMap(Clone, ({ admin }) =>
    admin(
      `update plugin_sandbox.runtimes set ${column} = ${column} - make_interval(secs => ${seconds})
        where project_id = $1::bigint`,
      [BigInt(project)]
    )
  )

const alertsOf = ({ project }: Scene) =>
  Effect.flatMap(Clone, ({ admin }) =>
    Effect.map(
      admin("select kind from core.alerts where project_id = $1::bigint and kind = 'recovery_fails'", [
        BigInt(project)
      ]),
      (rows) => rows.length
    )
  )

/** One recovery that does not bring the machine up. */
const failOnce = Effect.gen(function* () {
  const { guests } = yield* Scripted
  failNext(guests, "start")
  yield* work
  guests.faults.length = 0
})

describe("operations/autoRecovery", () => {
  layer(
    undispatched,
    live
  )((it) => {
    it.effect("SP figures: a guest that ended by itself is started again at once, on the same machine", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const { sandbox } = yield* runtimeOf(scene)
        yield* endGuest(scene)
        yield* sweep
        assert.deepStrictEqual(yield* recoveriesOf(scene), ["system queued"])
        yield* work
        const after = yield* runtimeOf(scene)
        assert.deepStrictEqual([after.observed, after.sandbox], ["running", sandbox])
        assert.strictEqual((yield* remembered(scene))["attempts"], 1)
      })
    )

    it.effect(
      "SP figures: attempts wait 0, 30, 120 and 600 s, go on for ever, and the fourth is told once",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          yield* endGuest(scene)
          const waits: Array<unknown> = []
          for (let attempt = 1; attempt <= 6; attempt += 1) {
            yield* sweep
            const { due_in } = yield* remembered(scene)
            waits.push(due_in)
            if (due_in !== null) {
              yield* move(scene, "recovery_due_at", Number(due_in) - 2)
              yield* sweep
              assert.lengthOf(yield* recoveriesOf(scene), attempt - 1, "it is not due yet")
              yield* move(scene, "recovery_due_at", 3)
              yield* sweep
            }
            assert.lengthOf(yield* recoveriesOf(scene), attempt)
            assert.strictEqual(yield* alertsOf(scene), attempt >= 4 ? 1 : 0)
            yield* failOnce
            assert.strictEqual((yield* runtimeOf(scene)).observed, "failed")
          }
          assert.deepStrictEqual(waits, [null, 30, 120, 600, 600, 600])
        })
    )

    it.effect("SP figures: fifteen healthy minutes begin the count anew, and no shorter time does", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        yield* endGuest(scene)
        yield* sweep
        yield* work
        yield* sweep
        yield* move(scene, "running_since", 15 * 60 - 5)
        yield* sweep
        assert.strictEqual((yield* remembered(scene))["attempts"], 1)
        yield* move(scene, "running_since", 5)
        yield* sweep
        assert.strictEqual((yield* remembered(scene))["attempts"], 0)
      })
    )

    it.effect("SP figures: healthy time is counted from the recovery, not from before it", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        yield* sweep
        yield* move(scene, "running_since", 20 * 60)
        yield* endGuest(scene)
        yield* sweep
        yield* work
        yield* sweep
        yield* sweep
        assert.strictEqual((yield* remembered(scene))["attempts"], 1)
      })
    )

    it.effect(
      "SP figures: a start that somebody asks for begins the count anew; the product's own does not",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          yield* endGuest(scene)
          yield* sweep
          yield* failOnce
          yield* sweep
          assert.deepInclude(yield* remembered(scene), { attempts: 1, is_due: true })
          yield* carryOut(scene, "start")
          assert.deepInclude(yield* remembered(scene), { attempts: 0, is_due: false })
          assert.strictEqual((yield* runtimeOf(scene)).observed, "running")
        })
    )

    it.effect("SP figures: a stop takes the place of a recovery that waits, and of one that is due", () =>
      Effect.gen(function* () {
        const queued = yield* provisioned
        yield* endGuest(queued)
        yield* sweep
        yield* carryOut(queued, "stop")
        assert.deepStrictEqual(yield* recoveriesOf(queued), ["system superseded"])
        const due = yield* provisioned
        yield* endGuest(due)
        yield* sweep
        yield* failOnce
        yield* sweep
        yield* carryOut(due, "stop")
        for (const scene of [queued, due]) {
          const before = yield* recoveriesOf(scene)
          yield* sweep
          yield* sweep
          assert.deepInclude(yield* remembered(scene), { attempts: 0, is_due: false })
          assert.deepStrictEqual(yield* recoveriesOf(scene), before)
          assert.strictEqual((yield* runtimeOf(scene)).observed, "stopped")
        }
      })
    )

    it.effect(
      "FC-13 SP-ADM-07 passes that see the same runtime ask for one recovery, and no other node for any",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          yield* endGuest(scene)
          yield* reconcileSandboxes
          yield* reconcileRuntimes(() => false)
          const { node } = yield* Registry
          yield* recoverRuntimes("00000000-0000-4000-8000-00000000000e" as typeof node)
          assert.deepStrictEqual(yield* recoveriesOf(scene), [])
          yield* Effect.all([recoverRuntimes(node), recoverRuntimes(node), recoverRuntimes(node)], {
            concurrency: "unbounded"
          })
          assert.deepStrictEqual(yield* recoveriesOf(scene), ["system queued"])
          yield* work
        })
    )

    it.effect("a machine behind more others than a page of the sweep holds is seen and recovered too", () =>
      Effect.gen(function* () {
        const { current } = yield* Processes
        const first = yield* provisioned
        const { recipe } = yield* runtimeOf(first)
        // Their own operations are at them, as far as anybody can say: the sweep has nothing to do there.
        yield* (yield* Clone).admin(
          `with projects as (
            insert into core.projects (tenant_id, name)
              select tenant_id, 'other-' || n from core.projects, generate_series(1, $2::int) n where id = $1::bigint
              returning id)
          insert into plugin_sandbox.runtimes (project_id, node_id, sandbox_id, recipe, desired, observed)
            select id, $3::uuid, $4, $5::text::jsonb, 'running', 'deleting' from projects`,
          [
            BigInt(first.project),
            reconcilePageRows,
            current.node,
            recipe!.sandbox,
            JSON.stringify({ ...recipe })
          ]
        )
        const last = yield* provisioned
        yield* endGuest(last)
        yield* sweep
        yield* work
        assert.deepStrictEqual(yield* recoveriesOf(last), ["system succeeded"])
        assert.strictEqual((yield* runtimeOf(last)).observed, "running")
      })
    )

    it.effect("SP-ADM-01 nothing is recovered of a Project that is being deleted", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        yield* endGuest(scene)
        yield* reconcileSandboxes
        yield* reconcileRuntimes(() => false)
        const { admin } = yield* Clone
        yield* admin("update core.projects set lifecycle = 'deleting' where id = $1::bigint", [
          BigInt(scene.project)
        ])
        yield* sweep
        assert.deepStrictEqual(yield* recoveriesOf(scene), [])
        const alerts = yield* admin("select kind from core.alerts where project_id = $1::bigint", [
          BigInt(scene.project)
        ])
        assert.deepStrictEqual(alerts, [], "it is not even asked for")
      })
    )

    it.effect("a machine that runs and needs nothing is not looked at again", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        yield* sweep
        const { admin } = yield* Clone
        const version = admin(
          "select xmin::text as version from plugin_sandbox.runtimes where project_id = $1::bigint",
          [BigInt(scene.project)]
        )
        const before = yield* version
        yield* sweep
        assert.deepStrictEqual(yield* version, before)
      })
    )
  })
})
