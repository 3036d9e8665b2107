/**
 * Cases of the supervisor's conformance about a guest's life: pause, end, repeated starts, generations.
 */
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import { expect } from "vitest"
import { Generation } from "../../src/domain/Identity.ts"
import { reclaimSandbox } from "../../src/domain/reclamation/reclamation.ts"
import { membersOf } from "../../src/infra/guests/cgroups.ts"
import { findWitnesses } from "../../src/infra/guests/witnesses.ts"
import {
  eventually,
  type GuestMethods,
  GuestSupervisor,
  makeSpec,
  run,
  shell,
  withGuest
} from "./guestHarness.ts"

/** Declares the cases for a daemon over the given state directory. */
export const lifeCases = (it: GuestMethods, stateDirectory: string): void => {
  it.effect(
    "a paused guest stands still, refuses commands, goes on when resumed, and can be ended while paused",
    () =>
      Effect.gen(function* () {
        const supervisor = yield* GuestSupervisor
        if (!supervisor.capabilities.pause) return
        const spec = makeSpec({
          argv: ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i >/workspace/counter; done"]
        })
        const counter = () =>
          Files.readFileSync(
            Path.join(stateDirectory, "runtime", spec.sandbox, "run/workspace/counter"),
            "utf8"
          )
        yield* withGuest(spec, () =>
          Effect.gen(function* () {
            const isThere = Effect.sync(() =>
              Files.existsSync(Path.join(stateDirectory, "runtime", spec.sandbox, "run/workspace/counter"))
            )
            yield* eventually("the counter counts", isThere)
            yield* supervisor.pause(spec.sandbox)
            yield* supervisor.pause(spec.sandbox)
            const frozen = counter()
            expect((yield* supervisor.inspect(spec.sandbox))._tag).toBe("Paused")
            const refused = yield* Effect.flip(run(spec.sandbox, ["true"]))
            expect(refused).toMatchObject({ _tag: "GuestStateRefused", state: "paused" })
            yield* Effect.sleep(30)
            expect(counter()).toBe(frozen)
            yield* supervisor.resume(spec.sandbox)
            expect((yield* supervisor.inspect(spec.sandbox))._tag).toBe("Running")
            yield* eventually(
              "the counter goes on",
              Effect.sync(() => counter() !== frozen && counter() !== "")
            )
            yield* supervisor.pause(spec.sandbox)
            expect((yield* supervisor.end(spec.sandbox, { graceMillis: 5_000 }))._tag).toBe("Gone")
          })
        )
      })
  )

  it.effect("the main command is asked to end first, and its status is kept", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec({
        argv: ["sh", "-c", "trap 'exit 42' TERM; touch /workspace/trapped; while :; do sleep 0.01; done"]
      })
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          yield* eventually(
            "the trap is set",
            Effect.map(
              run(spec.sandbox, ["test", "-e", "/workspace/trapped"]),
              (answer) => answer.exitCode === 0
            )
          )
          const observation = yield* supervisor.end(spec.sandbox, { graceMillis: 5_000 })
          expect(observation).toMatchObject({ _tag: "Gone", exit: { exitCode: 42 }, tombstone: false })
        })
      )
    })
  )

  it.effect("a signal reaches the main command alone, and its end by one is kept", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec({
        argv: [
          "sh",
          "-c",
          'for s in HUP USR1 USR2; do trap "echo $s >>/workspace/seen" $s; done; echo set >/workspace/seen; while :; do sleep 0.01; done'
        ]
      })
      const seen = Effect.map(run(spec.sandbox, ["cat", "/workspace/seen"]), ({ stdout }) => stdout)
      const eventuallySeen = (text: string) =>
        eventually(
          `the main command has seen ${text}`,
          Effect.map(seen, (all) => all === text)
        )
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          yield* eventuallySeen("set\n")
          yield* supervisor.signal(spec.sandbox, "USR1")
          yield* eventuallySeen("set\nUSR1\n")
          yield* supervisor.signal(spec.sandbox, "HUP")
          yield* eventuallySeen("set\nUSR1\nHUP\n")
          if (supervisor.capabilities.pause) {
            yield* supervisor.pause(spec.sandbox)
            const refused = yield* Effect.flip(supervisor.signal(spec.sandbox, "USR2"))
            expect(refused).toMatchObject({ code: "invalid_guest_state", state: "paused" })
            yield* supervisor.resume(spec.sandbox)
          }
          yield* supervisor.signal(spec.sandbox, "KILL")
          yield* eventually(
            "the guest is gone",
            Effect.map(supervisor.inspect(spec.sandbox), ({ _tag }) => _tag === "Gone")
          )
          expect(yield* supervisor.inspect(spec.sandbox)).toMatchObject({ exit: { exitCode: 137 } })
        })
      )
    })
  )

  it.effect("a guest without a main command has nothing to signal, and stays", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec()
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          const refused = yield* Effect.flip(supervisor.signal(spec.sandbox, "TERM"))
          expect(refused).toMatchObject({ code: "not_supported" })
          expect((yield* supervisor.inspect(spec.sandbox))._tag).toBe("Running")
        })
      )
    })
  )

  it.effect("a main command that ends takes the guest and all its processes with it", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec({ argv: ["sh", "-c", "setsid sleep 1000 & sleep 0.05; exit 5"] })
      yield* withGuest(spec, (identity) =>
        Effect.gen(function* () {
          yield* eventually(
            "the guest is gone",
            Effect.map(supervisor.inspect(spec.sandbox), (seen) => seen._tag === "Gone")
          )
          expect(yield* supervisor.inspect(spec.sandbox)).toMatchObject({ exit: { exitCode: 5 } })
          expect(identity.groups.flatMap((group) => membersOf(group.path))).toEqual([])
          const refused = yield* Effect.flip(supervisor.start(spec))
          expect(refused).toMatchObject({ code: "invalid_guest_state" })
        })
      )
    })
  )

  it.effect(
    "RG-RUN-02 starting the same attempt again answers the running guest, another attempt is refused",
    () =>
      Effect.gen(function* () {
        const supervisor = yield* GuestSupervisor
        const spec = makeSpec()
        yield* withGuest(spec, (identity) =>
          Effect.gen(function* () {
            const again = yield* Effect.all([supervisor.start(spec), supervisor.start(spec)], {
              concurrency: "unbounded"
            })
            expect(again.map((each) => each.init)).toEqual([identity.init, identity.init])
            const refused = yield* Effect.flip(
              supervisor.start(makeSpec({ ...spec, attemptId: randomUUID() }))
            )
            expect(refused).toMatchObject({ code: "invalid_guest_state" })
            expect((yield* supervisor.inspect(spec.sandbox))._tag).toBe("Running")
          })
        )
      })
  )

  it.effect("a guest that ended is started anew as a later generation, with its workspace", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec()
      yield* withGuest(spec, (first) =>
        Effect.gen(function* () {
          yield* shell(spec.sandbox, "echo kept >/workspace/file")
          yield* supervisor.end(spec.sandbox, { graceMillis: 0 })
          const next = makeSpec({ ...spec, generation: Generation.make(2), attemptId: randomUUID() })
          const second = yield* supervisor.start(next)
          expect(second.groups.map((group) => group.inode)).not.toEqual(
            first.groups.map((group) => group.inode)
          )
          expect(second.userId).toBe(first.userId)
          expect((yield* shell(spec.sandbox, "cat /workspace/file")).stdout).toBe("kept\n")
          const stale = yield* Effect.flip(supervisor.start(makeSpec({ ...spec, attemptId: randomUUID() })))
          expect(stale).toMatchObject({ code: "invalid_guest_state" })
        })
      )
    })
  )

  it.effect("a launch that is interrupted at any moment leaves no process", () =>
    Effect.forEach(
      [1, 6, 12, 20, 40],
      (afterMillis) =>
        Effect.gen(function* () {
          const supervisor = yield* GuestSupervisor
          const spec = makeSpec()
          const started = yield* Effect.timeoutOption(supervisor.start(spec), afterMillis)
          const observation = yield* supervisor.inspect(spec.sandbox)
          expect(observation._tag).toBe(started._tag === "Some" ? "Running" : "Gone")
          yield* reclaimSandbox(spec.sandbox, { graceMillis: 0 })
          expect(findWitnesses(spec.sandbox)).toEqual([])
        }),
      { discard: true }
    )
  )
}
