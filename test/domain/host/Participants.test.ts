/** The registry of those who take part in a deletion. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { Participants } from "../../../src/domain/host/Participants.ts"
import { makeOwner } from "./hostFixture.ts"

describe("host/Participants", () => {
  it.effect("service participants come before the storage owner, whoever registered first", () =>
    Effect.gen(function* () {
      const participants = yield* Participants
      yield* participants.register(makeOwner("plugin:sandbox", "storage", []))
      yield* participants.register(makeOwner("plugin:sites", "service", []))
      yield* participants.register(makeOwner("plugin:mail", "service", []))
      assert.deepStrictEqual(
        (yield* participants.inOrder).map(({ name }) => name),
        ["plugin:sites", "plugin:mail", "plugin:sandbox"]
      )
    }).pipe(Effect.provide(Participants.layer))
  )

  it.effect("a name is registered once: a second one dies and changes nothing", () =>
    Effect.gen(function* () {
      const participants = yield* Participants
      const first = makeOwner("plugin:sandbox", "storage", [])
      yield* participants.register(first)
      const again = participants.register(makeOwner("plugin:sandbox", "service", []))
      assert.isTrue(Exit.hasDies(yield* Effect.exit(again)))
      assert.deepStrictEqual(yield* participants.inOrder, [first])
    }).pipe(Effect.provide(Participants.layer))
  )
})
