/** Viewers of a desktop: how many there may be, and when they have to go. */
import { randomUUID } from "node:crypto"
import { assert, describe, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { desktopsMax, desktopViewersMax } from "../../../src/domain/Bounds.ts"
import { Desktops } from "../../../src/domain/desktop/Desktops.ts"
import { describeDesktop } from "../../../src/domain/desktop/description.ts"
import { startDesktop, stopDesktop } from "../../../src/domain/desktop/lifetime.ts"
import { viewDesktop } from "../../../src/domain/desktop/viewing.ts"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import { AccountId, ProjectId } from "../../../src/domain/Identity.ts"
import { Clone } from "../../support/clone.ts"
import { makeBarrier } from "../../support/sideBySide.ts"
import { inTime, waitFor } from "../../support/waiting.ts"
import { fixture, machineOf, onBoot, refusalOf, Steered } from "./fixture.ts"

const live = { excludeTestServices: true, timeout: "30 seconds" } as const

describe("desktop/viewing", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("SP-HTTP-04 SP-DESK-05 a viewer whose membership is taken has to go at the next look", () =>
      Effect.gen(function* () {
        const scene = yield* machineOf
        const { caller, project } = scene
        const { admin } = yield* Clone
        const account = AccountId.make(randomUUID())
        const parameters = [BigInt(project), account]
        yield* admin(
          "insert into core.accounts (id, tenant_id, name) values ($1::uuid, $2::uuid, 'member')",
          [account, caller.tenant]
        )
        yield* admin(
          "insert into core.memberships (project_id, account_id, role) values ($1::bigint, $2::uuid, 'member')",
          parameters
        )
        const member = new Caller({ ...caller, account, administrator: false })
        yield* startDesktop(member, project)
        const { over } = yield* viewDesktop(member, project)
        const { begun } = yield* Steered
        const before = begun.length
        // The next look is always due.
        const real = yield* Clock.Clock
        const clock: Clock.Clock = {
          currentTimeMillisUnsafe: () => real.currentTimeMillisUnsafe(),
          currentTimeMillis: real.currentTimeMillis,
          currentTimeNanosUnsafe: () => real.currentTimeNanosUnsafe(),
          currentTimeNanos: real.currentTimeNanos,
          monotonicTimeNanosUnsafe: () => real.monotonicTimeNanosUnsafe(),
          monotonicTimeNanos: real.monotonicTimeNanos,
          sleep: () => Effect.yieldNow
        }
        const going = yield* Effect.forkChild(Effect.provideService(over, Clock.Clock, clock))
        yield* waitFor({
          fact: "he is looked at again",
          look: Effect.sync(() => begun.slice(before)),
          holds: (looks) => looks.length > 2
        })
        assert.isUndefined(going.pollUnsafe())
        yield* admin(
          "delete from core.memberships where project_id = $1::bigint and account_id = $2::uuid",
          parameters
        )
        yield* inTime("he goes", Fiber.join(going))
        assert.strictEqual((yield* describeDesktop(caller, project, "read"))?.state, "ready")
      }).pipe(onBoot)
    )

    it.effect(
      "SP-DESK-02 a disposal fences viewers before it waits for anything, and admits nobody after",
      () =>
        Effect.gen(function* () {
          const { caller, project } = yield* machineOf
          const steering = yield* Steered
          const { dispose } = yield* Desktops
          yield* startDesktop(caller, project)
          const { over } = yield* viewDesktop(caller, project)
          const ending = yield* makeBarrier("the display's end")
          steering.ending = ending.arrive
          const disposing = yield* Effect.forkChild(dispose)
          yield* ending.reached
          yield* inTime("the viewer goes", over)
          assert.isUndefined(disposing.pollUnsafe())
          const refusals = yield* Effect.all([
            refusalOf(startDesktop(caller, project)),
            refusalOf(stopDesktop(caller, project)),
            refusalOf(Effect.scoped(viewDesktop(caller, project)))
          ])
          assert.deepStrictEqual([...new Set(refusals)], ["desktops_disposed"])
          yield* ending.open
          yield* Fiber.join(disposing)
          const begun = steering.begun.length
          yield* Effect.exit(startDesktop(caller, project))
          yield* dispose
          assert.deepStrictEqual(steering.begun.slice(begun), [])
        }).pipe(onBoot)
    )

    it.effect("FC-15 desktops and viewers have a bound", () =>
      Effect.gen(function* () {
        const { caller, project } = yield* machineOf
        const { register } = yield* Desktops
        yield* startDesktop(caller, project)
        for (let viewer = 0; viewer < desktopViewersMax; viewer += 1) yield* viewDesktop(caller, project)
        const full = yield* Effect.flip(Effect.scoped(viewDesktop(caller, project)))
        assert.deepInclude(full, { code: "desktops_full", of: "viewers", max: desktopViewersMax })
        const others = Array.from({ length: desktopsMax - 1 }, (_, at) =>
          register.prepare(ProjectId.make(1_000 + at))
        )
        assert.notInclude(others, null)
        const another = yield* machineOf
        const refused = yield* Effect.flip(startDesktop(another.caller, another.project))
        assert.deepInclude(refused, { code: "desktops_full", of: "desktops" })
        // The one that is there is still answered.
        assert.strictEqual((yield* describeDesktop(caller, project, "read"))?.state, "ready")
      }).pipe(onBoot)
    )
  })
})
