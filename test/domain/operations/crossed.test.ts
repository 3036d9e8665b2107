import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { RequestKey } from "../../../src/domain/Identity.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { admitOperationStepwise } from "../../../src/domain/operations/admissionStepwise.ts"
import { claimUntilEmpty } from "../../../src/domain/operations/claims.ts"
import { settleOperation } from "../../../src/domain/operations/settlement.ts"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import {
  ask,
  fixture,
  newProject,
  provisioned,
  queueFaults,
  self,
  value,
  oneByOne
} from "../../infra/postgres/operationsFixture.ts"

const live = { excludeTestServices: true } as const

layer(fixture, live)("admission, claims and deletions crossed", (it) => {
  it.effect(
    "SP-ADM-03 1,000 interleavings of requests, claims, settlements and deletions meet no deadlock",
    () =>
      Effect.gen(function* () {
        const db = yield* PluginDb
        const scenes = [yield* newProject, yield* newProject] as const
        for (const { project } of scenes) yield* provisioned(project)
        const settleAll = claimUntilEmpty(
          self,
          oneByOne((operation) =>
            settleOperation(
              operation,
              { state: operation.rowId % 2 === 0 ? "succeeded" : "failed", code: "x", text: "x" } as const,
              { generation: operation.generation, observed: "running", reason: null }
              // A settlement that fails here breaks the test itself: no other outcome is looked at.
            ).pipe(Effect.orDie)
          )
        )
        // Like a deletion and its withdrawal: the Project row first, then the plugin's.
        const toggle = (project: number, lifecycle: string) =>
          db.transaction(
            "test.toggle",
            Effect.gen(function* () {
              const tx = yield* PluginTx
              const run = (text: string) =>
                tx.query({ operation: "test.toggle", text, parameters: [project] })
              yield* run(`update core.projects set lifecycle = '${lifecycle}' where id = $1::bigint`)
              yield* run("update runtimes set changed_at = now() where project_id = $1::bigint")
            })
          )
        const refused = <A, E extends { readonly _tag: string }, R>(admission: Effect.Effect<A, E, R>) =>
          Effect.catch(admission, (error) =>
            "fault" in error || error._tag === "CommitUnknown" ? Effect.die(error) : Effect.void
          )
        const interleaving = (n: number) => {
          const [one, two] = n % 2 === 0 ? scenes : scenes.toReversed()
          const key = { requestKey: RequestKey.make(`key-${Math.floor(n / 3)}`) }
          return Effect.all(
            [
              refused(admitOperation(one.caller, ask(one.project, key))),
              refused(admitOperationStepwise(one.caller, ask(one.project, { ...key, action: "stop" }))),
              n % 5 === 0
                ? Effect.andThen(toggle(two.project, "deleting"), toggle(two.project, "active"))
                : settleAll
            ],
            { concurrency: "unbounded", discard: true }
          )
        }
        yield* Effect.forEach(
          Array.from({ length: 1_000 }, (_, n) => n),
          interleaving,
          {
            concurrency: 2,
            discard: true
          }
        )
        assert.strictEqual(yield* queueFaults, 0)
        assert.isAtLeast(Number(yield* value("select max(row_id)::int from runtime_operations")), 300)
      }),
    60_000
  )
})
