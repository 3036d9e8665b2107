import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as PubSub from "effect/PubSub"
import { randomUUID } from "node:crypto"
import { Identifiers } from "../../../src/domain/Identifiers.ts"
import { admitOperation, OperationAlerts } from "../../../src/domain/operations/admission.ts"
import { admitOperationStepwise } from "../../../src/domain/operations/admissionStepwise.ts"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { holding, untilWaiting } from "../../infra/postgres/lockWaits.ts"
import {
  type Admit,
  ask,
  fixture,
  newProject,
  provisioned,
  RaisedAlerts,
  rows,
  stored,
  value
} from "../../infra/postgres/operationsFixture.ts"
import { generation } from "./builders.ts"

const forms: ReadonlyArray<readonly [string, Admit]> = [
  ["in one statement", admitOperation],
  ["stepwise", admitOperationStepwise]
]

const live = { excludeTestServices: true } as const

describe.each(forms)("admission %s", (_form, admit) => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "SP-ADM-01 SP-ADM-02 a deletion waits for an admission that was first, and then sees its operation",
      () =>
        Effect.gen(function* () {
          const { project, caller } = yield* newProject
          yield* provisioned(project)
          // The admission has the Project row and waits for the runtime's: so the Project came first.
          const holder = yield* holding("select 1 from runtimes where project_id = $1::bigint for update", [
            project
          ])
          const admission = yield* Effect.forkChild(admit(caller, ask(project)))
          yield* untilWaiting("runtimes", 1)
          const deletion = yield* Effect.forkChild(
            rows("update core.projects set lifecycle = 'deleting' where id = $1::bigint", [project])
          )
          // The admission is one of them: it has the Project's row while it waits.
          yield* untilWaiting("core.projects", 2)
          yield* holder.release
          const { operation } = yield* Fiber.join(admission)
          yield* Fiber.join(deletion)
          const seen = yield* value("select id from runtime_operations where project_id = $1::bigint", [
            project
          ])
          assert.strictEqual(seen, operation.id)
        })
    )

    it.effect("SP-ADM-02 a deletion that was first makes the waiting admission fail and leave nothing", () =>
      Effect.gen(function* () {
        const { project, caller } = yield* newProject
        const holder = yield* holding(
          "update core.projects set lifecycle = 'deleting' where id = $1::bigint",
          [project]
        )
        const admission = yield* Effect.forkChild(
          Effect.flip(admit(caller, ask(project, { action: "provision" })))
        )
        yield* untilWaiting("core.projects", 1)
        yield* holder.release
        assert.strictEqual((yield* Fiber.join(admission))._tag, "ProjectNotActive")
        assert.deepStrictEqual(yield* stored(project), { runtime: [], operations: [] })
      })
    )

    it.effect("SP-ADM-04 a membership revoked while the request waits for its transaction refuses it", () =>
      Effect.gen(function* () {
        const { project, caller, viewer } = yield* newProject
        yield* provisioned(project)
        const holder = yield* holding("select 1 from core.projects where id = $1::bigint for update", [
          project
        ])
        const admission = yield* Effect.forkChild(Effect.flip(admit(caller, ask(project))))
        yield* untilWaiting("core.projects", 1)
        yield* rows("delete from core.memberships where account_id = $1::uuid", [caller.account])
        yield* holder.release
        assert.strictEqual((yield* Fiber.join(admission))._tag, "AccessRefused")
        assert.strictEqual((yield* Effect.flip(admit(viewer, ask(project))))._tag, "AccessRefused")
        assert.deepStrictEqual((yield* stored(project)).operations, [])
      })
    )

    it.effect(
      "SP-ADM-06 the alert of a refused start is written outside the rejected transaction and outlives it",
      () =>
        Effect.gen(function* () {
          const db = yield* PluginDb
          const { project, caller } = yield* newProject
          const alerts = Layer.succeed(OperationAlerts, {
            recoveriesFail: () => Effect.void,
            startRefused: ({ code }) =>
              Effect.gen(function* () {
                assert.isTrue(
                  Option.isNone(yield* Effect.serviceOption(PluginTx)),
                  "the transaction is still open"
                )
                yield* db.query({
                  operation: "test.alert",
                  text: "insert into core.alerts (project_id, kind, message) values ($1::bigint, $2::text, '')",
                  parameters: [project, code]
                })
                // The port promises never to fail.
              }).pipe(Effect.orDie)
          })
          const request = ask(project, { action: "provision", expectedGeneration: generation(9) })
          const refused = yield* Effect.flip(admit(caller, request)).pipe(Effect.provide(alerts))
          assert.strictEqual(refused._tag, "GenerationConflict")
          const kept = yield* rows("select kind from core.alerts where project_id = $1::bigint", [project])
          assert.deepStrictEqual(kept, [{ kind: "generation_conflict" }])
          assert.deepStrictEqual(yield* stored(project), { runtime: [], operations: [] })
        })
    )

    it.effect("a refused stop, and a start by somebody without access, raise no alert", () =>
      Effect.gen(function* () {
        const raised = yield* RaisedAlerts
        const { project, caller, viewer } = yield* newProject
        yield* Effect.flip(admit(caller, ask(project, { action: "stop" })))
        yield* Effect.flip(admit(viewer, ask(project)))
        assert.deepStrictEqual(
          raised.filter((each) => each.project === project),
          []
        )
      })
    )

    it.effect("SP-ADM-07 twenty requests with one key at once are one operation", () =>
      Effect.gen(function* () {
        const { project, caller } = yield* newProject
        const request = ask(project, { action: "provision", parameters: { cpuMillis: 500 } })
        const answers = yield* Effect.all(
          Array.from({ length: 20 }, () => admit(caller, request)),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(new Set(answers.map(({ operation }) => operation.id)).size, 1)
        assert.strictEqual(answers.filter(({ outcome }) => outcome === "admitted").length, 1)
        assert.strictEqual((yield* stored(project)).operations.length, 1)
      })
    )

    it.effect("SP-ADM-09 of twenty different requests at once one is admitted, and the others name it", () =>
      Effect.gen(function* () {
        const { project, caller } = yield* newProject
        const exits = yield* Effect.all(
          Array.from({ length: 20 }, () =>
            Effect.result(admit(caller, ask(project, { action: "provision" })))
          ),
          { concurrency: "unbounded" }
        )
        const won = exits.flatMap((exit) => (exit._tag === "Success" ? [exit.success.operation.id] : []))
        const named = exits.flatMap((exit) =>
          exit._tag === "Failure" && exit.failure._tag === "OperationInProgress"
            ? [exit.failure.operation]
            : []
        )
        assert.strictEqual(won.length, 1)
        assert.deepStrictEqual(
          named,
          Array.from({ length: 19 }, () => won[0])
        )
      })
    )

    it.effect("SP-TX-10 the id is drawn before a transaction opens, and a senseless request opens none", () =>
      Effect.gen(function* () {
        const { project, caller } = yield* newProject
        yield* provisioned(project)
        const drawn = Layer.succeed(Identifiers, {
          uuid: Effect.map(Effect.serviceOption(PluginTx), (tx) => {
            assert.isTrue(Option.isNone(tx), "drawn inside the transaction")
            return randomUUID()
          }),
          token: Effect.die("no token is needed")
        })
        yield* admit(caller, ask(project)).pipe(Effect.provide(drawn))
        // Behind these nothing is there: reaching for a store at all would die.
        const nothing = Layer.mock(OperationStore)({})
        const senseless = [
          ask(project, { action: "delete" }),
          ask(project, { action: "provision", parameters: { cpuMillis: -1 } })
        ]
        const codes = yield* Effect.forEach(senseless, (request) => Effect.flip(admit(caller, request))).pipe(
          Effect.provide(nothing)
        )
        assert.deepStrictEqual(
          codes.map((error) => error._tag),
          ["ProjectDeletionRequired", "InvalidParameters"]
        )
      })
    )

    it.effect(
      "SP-TX-09 an admission is published once, when its row can be read, and a refused one never",
      () =>
        Effect.gen(function* () {
          const events = yield* OperationEvents
          const store = yield* OperationStore
          const { project, caller } = yield* newProject
          yield* provisioned(project)
          const watcher = yield* events.subscribe
          const request = ask(project)
          yield* Effect.forkChild(Effect.andThen(admit(caller, request), admit(caller, request)))
          const event = yield* PubSub.take(watcher)
          assert.strictEqual(event.project, project)
          assert.isTrue(Option.isSome(yield* store.byId(event.operation)))
          yield* Effect.flip(admit(caller, ask(project)))
          assert.strictEqual((yield* PubSub.takeUpTo(watcher, 1)).length, 0)
        }).pipe(Effect.scoped)
    )

    it.effect("SP-DEL-04 an ordinary request to delete is refused and writes nothing", () =>
      Effect.gen(function* () {
        const { project, caller } = yield* newProject
        yield* provisioned(project)
        for (const asker of [caller, "system"] as const) {
          const refused = yield* Effect.flip(admit(asker, ask(project, { action: "delete" })))
          assert.strictEqual("code" in refused ? refused.code : "", "project_deletion_required")
        }
        assert.deepStrictEqual((yield* stored(project)).operations, [])
      })
    )
  })
})
