/** The product's own choice of stores, where a choice of its own decides: the alerts of operations go to the host. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { OperationAlerts, admitOperation } from "../../src/domain/operations/admission.ts"
import { PluginDb, PluginTx } from "../../src/domain/persistence/PluginDb.ts"
import * as Live from "../../src/layers/live.ts"
import { fixture as clones, newProject, requestOf } from "../domain/removal/fixture.ts"
import { Clone } from "../support/clone.ts"

const alertsOf = (project: number) =>
  Effect.flatMap(Clone, ({ admin }) =>
    admin("select project_label, kind, message from core.alerts where project_id = $1::bigint order by id", [
      BigInt(project)
    ])
  )

/** The product's stores anew, over a handle that notes what is open when it is used. */
const observed = (open: Array<string>, db: PluginDb["Service"], fails: boolean) =>
  Layer.fresh(Live.stores).pipe(
    Layer.provide(
      Layer.succeed(
        PluginDb,
        PluginDb.of({
          ...db,
          query: (query) => {
            if (query.operation !== "ProjectStore.raiseAlert") return db.query(query)
            return Effect.gen(function* () {
              const tx = yield* Effect.serviceOption(PluginTx)
              open.push(tx._tag)
              return yield* db.query(fails ? { ...query, text: "select 1 / 0", parameters: [] } : query)
            })
          }
        })
      )
    )
  )

layer(clones, { excludeTestServices: true })("layers/live", (it) => {
  it.effect("SP-ADM-06 a refused start's alert names its Project, outside of any transaction", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      const open: Array<string> = []
      const db = yield* PluginDb
      const refused = yield* Effect.flip(admitOperation(caller, requestOf(project, "start"))).pipe(
        Effect.provide(observed(open, db, false))
      )
      assert.deepInclude({ ...refused }, { _tag: "RuntimeNotProvisioned" })
      const [label] = yield* (yield* Clone).admin("select name from core.projects where id = $1::bigint", [
        BigInt(project)
      ])
      const [alert, ...others] = yield* alertsOf(project)
      assert.deepInclude({ ...alert }, { kind: "start_refused", project_label: label?.["name"] })
      assert.include(String(alert?.["message"]), "runtime_not_provisioned: ")
      assert.deepStrictEqual([others, open], [[], ["None"]])
    })
  )

  it.effect("SP-ADM-06 an alert that cannot be raised hides no refusal", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      const open: Array<string> = []
      const db = yield* PluginDb
      const refused = yield* Effect.flip(admitOperation(caller, requestOf(project, "start"))).pipe(
        Effect.provide(observed(open, db, true))
      )
      assert.strictEqual(refused._tag, "RuntimeNotProvisioned")
      assert.deepStrictEqual([yield* alertsOf(project), open], [[], ["None"]])
    })
  )

  it.effect("four recoveries that did not help are told once, by the Project's name", () =>
    Effect.gen(function* () {
      const { project } = yield* newProject
      yield* (yield* OperationAlerts).recoveriesFail({ project, attempts: 4 })
      const [alert] = yield* alertsOf(project)
      assert.deepInclude({ ...alert }, { kind: "recovery_fails" })
      assert.include(String(alert?.["message"]), "4 automatic recoveries")
    })
  )
})
