/** What the events of a command prove of its end: a lease is given up on nothing less. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { ExecutionEvent } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestFailure, GuestStateRefused } from "../../../src/domain/guests/GuestSupervisor.ts"
import { SandboxId } from "../../../src/domain/Identity.ts"
import { makeCommandEnd } from "../../../src/domain/leases/commandEnd.ts"

const sandbox = SandboxId.make("sb-00000000-0000-4000-8000-000000000001")
const exited = ExecutionEvent.cases.Exited.make({ exitCode: 0, ended: "exited" })
const output = ExecutionEvent.cases.Output.make({ stream: "stdout", bytes: new Uint8Array(1) })
const failure = new GuestFailure({ sandbox, step: "execute", detail: "lost" })
const refusal = new GuestStateRefused({ sandbox, call: "execute", state: "paused" })

const kindOf = (end: ReturnType<typeof makeCommandEnd>) =>
  Option.match(end.evidence(), { onNone: () => "none", onSome: ({ _tag }) => _tag })

type Events = Stream.Stream<ExecutionEvent, GuestFailure | GuestStateRefused>
const ends: ReadonlyArray<readonly [what: string, events: Events, kind: string]> = [
  ["the supervisor's last word", Stream.make(output, exited), "Exited"],
  ["a stream that ended without it", Stream.make(output), "Exited"],
  ["a state that refused it before anything", Stream.fail(refusal), "NeverStarted"],
  ["such a refusal behind an event", Stream.concat(Stream.make(output), Stream.fail(refusal)), "none"],
  ["a failure", Stream.concat(Stream.make(output), Stream.fail(failure)), "none"],
  ["a failure behind the last word", Stream.concat(Stream.make(exited), Stream.fail(failure)), "Exited"]
]

describe("commandEnd", () => {
  it.live.each(ends)("SP-LEASE-06 %s", ([, events, kind]) =>
    Effect.gen(function* () {
      const end = makeCommandEnd()
      assert.strictEqual(kindOf(end), "NeverStarted")
      yield* Effect.exit(Stream.runDrain(end.follow(events)))
      assert.strictEqual(kindOf(end), kind)
    })
  )

  it.live(
    "SP-LEASE-06 an interrupted stream has ended its command, and a second command counts for itself",
    () =>
      Effect.gen(function* () {
        const end = makeCommandEnd()
        const begun = yield* Deferred.make<void>()
        const endless = Stream.concat(
          Stream.fromEffect(Effect.as(Deferred.succeed(begun, undefined), output)),
          Stream.never
        )
        yield* Stream.runDrain(end.follow(endless).pipe(Stream.interruptWhen(Deferred.await(begun))))
        assert.deepStrictEqual([kindOf(end), end.hasExited()], ["Exited", false])
        yield* Stream.runDrain(end.follow(Stream.make(exited)))
        assert.isTrue(end.hasExited())
        yield* Effect.exit(Stream.runDrain(end.follow(Stream.fail(failure))))
        assert.deepStrictEqual([kindOf(end), end.hasExited()], ["none", false])
      })
  )
})
