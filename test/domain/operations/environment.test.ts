/** The overview of a Project's runtime: one snapshot, in which access is checked. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { readEnvironment } from "../../../src/domain/operations/environment.ts"
import { ask, fixture, newProject, provisioned, queued } from "../../infra/postgres/operationsFixture.ts"

layer(fixture, { excludeTestServices: true })("readEnvironment", (it) => {
  it.effect(
    "SP-HTTP-03 answers the runtime, its live operation with its place in the queue, and the newest receipts",
    () =>
      Effect.gen(function* () {
        const { caller, operation, project, viewer } = yield* queued
        for (const reader of [caller, viewer]) {
          const seen = yield* readEnvironment(reader, project)
          assert.strictEqual(Option.getOrThrow(seen.runtime).project, project)
          assert.strictEqual(Option.getOrThrow(seen.live).id, operation.id)
          assert.deepStrictEqual(
            seen.newest.map(({ id }) => id),
            [operation.id]
          )
          assert.deepStrictEqual(
            seen.sights.map((sight) => sight.operation),
            [operation.id]
          )
        }
      })
  )

  it.effect(
    "SP-HTTP-04 SP-ADM-04 is refused to whoever has no membership, is disabled, or asks for what is not there",
    () =>
      Effect.gen(function* () {
        const { project } = yield* newProject
        yield* provisioned(project)
        const stranger = (yield* newProject).caller
        const refused = yield* Effect.flip(readEnvironment(stranger, project))
        assert.strictEqual(refused._tag, "AccessRefused")
        const mine = yield* newProject
        const empty = yield* readEnvironment(mine.caller, mine.project)
        assert.isTrue(Option.isNone(empty.runtime))
        const missing = yield* Effect.flip(
          readEnvironment(mine.caller, (project + 1_000_000) as typeof project)
        )
        assert.strictEqual(missing._tag, "AccessRefused")
        yield* admitOperation(mine.caller, ask(mine.project, { action: "provision" }))
        assert.lengthOf((yield* readEnvironment(mine.caller, mine.project)).newest, 1)
      })
  )
})
