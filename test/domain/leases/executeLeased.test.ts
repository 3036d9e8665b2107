/** What an execution under a lease leaves of it, by how its events end. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { ExecutionEvent } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestFailure, GuestStateRefused } from "../../../src/domain/guests/GuestSupervisor.ts"
import { executeLeased } from "../../../src/domain/leases/executeLeased.ts"
import { admitShell, asProcess, leaseRows, onClone, seedRuntime, someProcess } from "./fixture.ts"

const exited = ExecutionEvent.cases.Exited.make({ exitCode: 3, ended: "exited" })
const output = ExecutionEvent.cases.Output.make({ stream: "stdout", bytes: new Uint8Array([1]) })

/** How many leases are left behind the events of an execution, and what it told. */
const leftBehind = (events: Stream.Stream<ExecutionEvent, GuestFailure | GuestStateRefused>) =>
  onClone(
    Effect.gen(function* () {
      const asHolder = yield* asProcess(someProcess())
      const seeded = yield* seedRuntime()
      const told = yield* Effect.scoped(
        Effect.gen(function* () {
          const handle = yield* admitShell(seeded)
          return yield* Effect.option(Stream.runCollect(yield* executeLeased(handle, events)))
        })
      ).pipe(asHolder)
      return { left: (yield* leaseRows).length, told: told._tag === "Some" ? [...told.value] : null }
    })
  )

describe("leases/executeLeased", () => {
  it.live(
    "SP-LEASE-06 an end that the guest told releases the lease, one that it could not tell keeps it",
    () =>
      Effect.gen(function* () {
        const { sandbox } = yield* onClone(seedRuntime())
        const failure = new GuestFailure({ sandbox, step: "execute", detail: "lost" })
        const refusal = new GuestStateRefused({ sandbox, call: "execute", state: "paused" })
        assert.deepStrictEqual(yield* leftBehind(Stream.make(output, exited)), {
          left: 0,
          told: [output, exited]
        })
        assert.deepStrictEqual(yield* leftBehind(Stream.fail(failure)), { left: 1, told: null })
        assert.deepStrictEqual(yield* leftBehind(Stream.fail(refusal)), { left: 0, told: null })
        const late = Stream.concat(Stream.make(output), Stream.fail(refusal))
        assert.deepStrictEqual(yield* leftBehind(late), { left: 1, told: null })
      })
  )

  it.live("SP-LEASE-05 a cancellation ends the execution, and the last event says so", () =>
    onClone(
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const seeded = yield* seedRuntime()
        yield* Effect.gen(function* () {
          const handle = yield* admitShell(seeded)
          const events = yield* executeLeased(handle, Stream.never)
          assert.isFalse(yield* handle.isCancelled)
          yield* handle.requestCancel
          assert.isTrue(yield* handle.isCancelled)
          const told = yield* Stream.runCollect(events)
          assert.deepInclude([...told].at(-1), { ended: "cancelled" })
        }).pipe(asHolder)
      })
    )
  )
})
