/** Which machines a daemon works on. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { countCalls } from "../../../src/infra/guests/scriptedState.ts"
import { Clone } from "../../support/clone.ts"
import { fixture, ask, provisioned, Scripted, settled } from "../removal/fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const

describe("operations/machineRecipes", () => {
  layer(
    fixture,
    live
  )((it) => {
    for (const action of ["start", "stop"] as const) {
      it.effect(`FC-13 SP-OPS-03 a ${action} of a machine of another node touches nothing here`, () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const { guests } = yield* Scripted
          const { admin } = yield* Clone
          const elsewhere = "00000000-0000-4000-8000-00000000000e"
          yield* admin(`insert into plugin_sandbox.nodes (id, name) values ('${elsewhere}', 'there')
            on conflict do nothing`)
          // The queue says nothing of the node, as when the row was written by hand: the step looks for itself.
          yield* admin(`update plugin_sandbox.runtimes set node_id = null,
            recipe = jsonb_set(recipe, '{node}', '"${elsewhere}"') where project_id = ${scene.project}`)
          const sandbox = scene.operation.newRecipe!.sandbox
          const before = [guests.guests.get(sandbox)?.identity, countCalls(guests, "end", sandbox)]
          const refused = yield* Effect.flatMap(ask(scene, action), settled)
          assert.deepStrictEqual([refused.state, refused.errorCode], ["failed", "sandbox_of_another_node"])
          assert.deepStrictEqual(
            [guests.guests.get(sandbox)?.identity, countCalls(guests, "end", sandbox)],
            before
          )
        })
      )
    }
  })
})
