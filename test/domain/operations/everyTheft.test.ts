/**
 * Every action on a machine, with its claim taken away at every boundary of every step: its executor goes on, as one
 * does that was only paused, and whatever it does to the guest by then, the rows say what they said at the theft.
 */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Struct from "effect/Struct"
import { RuntimeLog } from "../../../src/domain/history/RuntimeLog.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { executeClaimed } from "../../../src/domain/operations/execution.ts"
import type { Operation } from "../../../src/domain/operations/Operation.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { supersedeOperation } from "../../../src/domain/operations/supersede.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { requestOf, type Scene, undispatched } from "../removal/fixture.ts"
import { actingAt } from "../../support/boundaries.ts"
import { type Case, cases, claim, receiptOf } from "./actionCases.ts"

const testMillisMax = 120_000

/** What is proved absent is so whoever proved it, and a guest that was paused goes on: the rest is the claimant's. */
const rowsOf = ({ project }: Scene, { id }: Operation) =>
  Effect.gen(function* () {
    const runtime = Option.getOrThrow(yield* (yield* RuntimeStore).runtime(project))
    const receipt = Struct.omit({ ...(yield* receiptOf(id)) }, ["absences", "owed"])
    const snapshots = yield* (yield* SnapshotRows).ofProject(project)
    const lines = yield* (yield* RuntimeLog).newest(project, 200)
    return {
      runtime,
      receipt,
      lines,
      snapshots: snapshots.map((each) => Struct.omit({ ...each }, ["pausedBy"]))
    }
  })

/** Each theft is told to the log, a hundred times here. */
const unlogged = Effect.provide(Logger.layer([]))

/** Carries the action out with its claim taken back by a user there; answers the boundaries that were met. */
const stolenAt = (expected: Case, at: number) =>
  Effect.gen(function* () {
    const scene = yield* expected.begin
    yield* admitOperation(scene.caller, requestOf(scene.project, expected.action))
    const claimed = yield* claim
    const steal = Effect.gen(function* () {
      assert.isTrue(yield* (yield* OperationStore).requeueIfClaimedBy(claimed))
      yield* supersedeOperation(scene.caller, { id: claimed.id, project: scene.project })
      kept = yield* rowsOf(scene, claimed)
    })
    let kept: Effect.Success<ReturnType<typeof rowsOf>> | undefined
    const context = yield* Effect.context<Effect.Services<typeof steal>>()
    // An observer cannot fail.
    const stealing = steal.pipe(Effect.provide(context), Effect.orDie)
    const { observer, reached } = actingAt(at, stealing)
    yield* executeClaimed(claimed).pipe(Effect.provideService(StepObserver, observer), unlogged)
    if (Number.isFinite(at)) {
      assert.deepStrictEqual(yield* rowsOf(scene, claimed), kept, `stolen ${reached[at - 1]}`)
    }
    return reached
  })

describe("operations, a theft at every boundary", () => {
  layer(undispatched, { excludeTestServices: true, timeout: "120 seconds" })((it) => {
    for (const expected of cases) {
      it.effect(
        `SP-OPS-06 ${expected.name}: stolen at any boundary, its late executor changes no row`,
        () =>
          Effect.gen(function* () {
            const boundaries = yield* stolenAt(expected, Number.POSITIVE_INFINITY)
            assert.isAbove(boundaries.length, 2)
            for (let at = 1; at <= boundaries.length; at += 1) yield* stolenAt(expected, at)
          }),
        testMillisMax
      )
    }
  })
})
