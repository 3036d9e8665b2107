/** What is told of a desktop while a stop, a disposal or a replacement of the machine comes between, in both orders. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type { DesktopDescription } from "../../../src/domain/desktop/Desktop.ts"
import { Desktops } from "../../../src/domain/desktop/Desktops.ts"
import { describeDesktop } from "../../../src/domain/desktop/description.ts"
import { startDesktop, stopDesktop } from "../../../src/domain/desktop/lifetime.ts"
import { viewDesktop } from "../../../src/domain/desktop/viewing.ts"
import { cancelExecutionsOf } from "../../../src/domain/leases/cancellation.ts"
import { StorageFailure } from "../../../src/domain/persistence/PluginDb.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { makeBarrier } from "../../support/sideBySide.ts"
import { inTime } from "../../support/waiting.ts"
import { ask, type Scene, settled } from "../removal/fixture.ts"
import { fixture, heldAt, machineOf, onBoot, oneRuns, replaceUnannounced, Steered } from "./fixture.ts"

const live = { excludeTestServices: true, timeout: "30 seconds" } as const

const look = ({ caller, project }: Scene) => describeDesktop(caller, project, "read")
const start = ({ caller, project }: Scene) => startDesktop(caller, project)
const stateOf = (described: DesktopDescription | null) => described?.state ?? null

const dispose = Effect.flatMap(Desktops, (desktops) => desktops.dispose)
/** What happens beside a look has no failure of its own there: one would be the test's fault. */
const stop = ({ caller, project }: Scene) => Effect.orDie(stopDesktop(caller, project))
const cancel = ({ project }: Scene) => Effect.asVoid(Effect.orDie(cancelExecutionsOf(project)))
const replace = (scene: Scene) =>
  Effect.gen(function* () {
    const done = yield* Effect.flatMap(ask(scene, "rebuild"), settled)
    assert.strictEqual(done.state, "succeeded", done.errorText ?? "")
    // As above.
  }).pipe(Effect.orDie)

type Needs = Desktops | Effect.Services<ReturnType<typeof stop | typeof cancel | typeof replace>>

/** What comes between, whole, and what a description tells behind it. */
const between: ReadonlyArray<
  readonly [name: string, act: (scene: Scene) => Effect.Effect<void, never, Needs>, told: null | "none"]
> = [
  ["disposal", () => dispose, null],
  ["stop", stop, "none"],
  ["replacement", replace, "none"],
  ["cancellation", cancel, "none"]
]

/** Where a description is held: behind its first read, at its look at the display, and behind all of its checks. */
const firstRead = heldAt("behind", "desktop.look")
const lastCheck = heldAt("behind", "LeaseStore.whyUnusable")
const displayAsked = Effect.gen(function* () {
  const steering = yield* Steered
  const barrier = yield* makeBarrier("the display is asked")
  steering.answers = Effect.suspend(() => {
    steering.answers = Effect.succeed(true)
    return Effect.as(barrier.arrive, true)
  })
  return barrier
})
const points = [
  ["its first read", firstRead],
  ["its look at the display", displayAsked],
  ["its last check", lastCheck]
] as const

describe("desktop/description", () => {
  layer(
    fixture,
    live
  )((it) => {
    for (const [name, act, told] of between) {
      const rules = name === "disposal" ? "SP-DESK-03" : "SP-DESK-04"
      for (const [point, held] of points) {
        it.effect(`${rules} a ${name} behind ${point} is seen by a description that was awaiting it`, () =>
          Effect.gen(function* () {
            const scene = yield* machineOf
            yield* start(scene)
            const { begun } = yield* Steered
            const barrier = yield* held
            const describing = yield* Effect.forkChild(look(scene))
            yield* barrier.reached
            yield* inTime(`the ${name}`, act(scene))
            const before = begun.length
            yield* barrier.open
            assert.strictEqual(stateOf(yield* Fiber.join(describing)), told)
            // Behind a disposal nothing is asked any more, not even what the description was about to.
            if (told === null) assert.deepStrictEqual(begun.slice(before), [])
          }).pipe(onBoot)
        )
      }

      it.effect(`${rules} a description that ended before a ${name} told what was so`, () =>
        Effect.gen(function* () {
          const scene = yield* machineOf
          yield* start(scene)
          assert.strictEqual(stateOf(yield* look(scene)), "ready")
          yield* inTime(`the ${name}`, act(scene))
          assert.strictEqual(stateOf(yield* look(scene)), told)
        }).pipe(onBoot)
      )
    }

    it.effect(
      "SP-DESK-04 a machine that was replaced in the row alone takes its display along, before and behind the first read",
      () =>
        Effect.gen(function* () {
          const scene = yield* machineOf
          yield* start(scene)
          const barrier = yield* firstRead
          const describing = yield* Effect.forkChild(look(scene))
          yield* barrier.reached
          yield* replaceUnannounced(scene)
          yield* barrier.open
          assert.strictEqual(stateOf(yield* Fiber.join(describing)), "none")
          assert.strictEqual(stateOf(yield* look(scene)), "none")
          // The next start ends what is left of it, and makes another one in the machine of now.
          const next = yield* start(scene)
          assert.deepStrictEqual([next.state, next.display?.generation], ["ready", 2])
          yield* oneRuns
        }).pipe(onBoot)
    )

    it.effect("SP-DESK-04 a machine that is observed as failed has no desktop, whatever still answers", () =>
      Effect.gen(function* () {
        const scene = yield* machineOf
        yield* start(scene)
        const store = yield* RuntimeStore
        const { generation } = Option.getOrThrow(yield* store.runtime(scene.project))
        yield* store.observe(scene.project, { generation, observed: "failed", reason: "its guest has ended" })
        assert.strictEqual(stateOf(yield* look(scene)), "none")
      }).pipe(onBoot)
    )

    it.effect(
      "SP-DESK-04 a cancellation counts from the moment in which it is known, before anybody acts on it",
      () =>
        Effect.gen(function* () {
          const scene = yield* machineOf
          const unwatched = Effect.updateService(Desktops, (desktops) => ({
            ...desktops,
            watch: () => Effect.void
          }))
          yield* start(scene).pipe(unwatched)
          const { project } = scene
          const barrier = yield* lastCheck
          const describing = yield* Effect.forkChild(look(scene))
          yield* barrier.reached
          yield* cancel({ caller: scene.caller, project })
          yield* barrier.open
          assert.strictEqual(stateOf(yield* Fiber.join(describing)), "none")
          yield* stop(scene)
        }).pipe(onBoot)
    )

    it.effect(
      "SP-DESK-03 a description that is asked for behind a disposal answers null and sends no statement",
      () =>
        Effect.gen(function* () {
          const scene = yield* machineOf
          yield* start(scene)
          const { begun } = yield* Steered
          yield* dispose
          const before = begun.length
          assert.isNull(yield* look(scene))
          assert.deepStrictEqual(begun.slice(before), [])
        }).pipe(onBoot)
    )

    it.effect(
      "SP-DESK-03 a first read that fails behind a disposal is null, and before one its own failure",
      () =>
        Effect.gen(function* () {
          const scene = yield* machineOf
          const { behind } = yield* Steered
          const broken = new StorageFailure({
            operation: "desktop.look",
            fault: "connection",
            state: null,
            constraint: null
          })
          const barrier = yield* makeBarrier("the first read")
          const failing = Effect.updateService(RuntimeStore, (store) => ({
            ...store,
            snapshot: (...[operation, body]: Parameters<typeof store.snapshot>) =>
              Effect.andThen(store.snapshot(operation, body), Effect.fail(broken)) as never
          }))
          behind.set("desktop.look", barrier.arrive)
          const describing = yield* Effect.forkChild(look(scene).pipe(failing))
          yield* barrier.reached
          behind.delete("desktop.look")
          assert.strictEqual((yield* Effect.flip(look(scene).pipe(failing)))._tag, "StorageFailure")
          yield* dispose
          yield* barrier.open
          assert.isNull(yield* Fiber.join(describing))
        }).pipe(onBoot)
    )

    it.effect(
      "SP-DESK-04 a desktop that takes the place of another is not told by a description of the other",
      () =>
        Effect.gen(function* () {
          const scene = yield* machineOf
          yield* start(scene)
          const barrier = yield* lastCheck
          const describing = yield* Effect.forkChild(look(scene))
          yield* barrier.reached
          yield* stopDesktop(scene.caller, scene.project)
          const next = yield* start(scene)
          yield* barrier.open
          assert.strictEqual(stateOf(yield* Fiber.join(describing)), "none")
          assert.deepStrictEqual(yield* look(scene), next)
        }).pipe(onBoot)
    )

    it.effect("SP-DESK-04 a viewer is not let in to a display that was stopped while he was looked at", () =>
      Effect.gen(function* () {
        const connecting = Effect.gen(function* () {
          const barrier = yield* makeBarrier("his connection")
          ;(yield* Steered).connecting = barrier.arrive
          return barrier
        })
        for (const held of [...points.map(([, each]) => each), connecting]) {
          const scene = yield* machineOf
          yield* start(scene)
          const barrier = yield* held
          const viewing = yield* Effect.forkChild(Effect.flip(viewDesktop(scene.caller, scene.project)))
          yield* barrier.reached
          yield* stopDesktop(scene.caller, scene.project)
          yield* barrier.open
          assert.strictEqual((yield* Fiber.join(viewing))._tag, "DesktopNotReady")
        }
      }).pipe(onBoot)
    )

    it.effect(
      "a display in a guest that stands still is unreachable, and another start leaves it as it is",
      () =>
        Effect.gen(function* () {
          const scene = yield* machineOf
          const { display } = yield* start(scene)
          const steering = yield* Steered
          steering.answers = Effect.succeed(false)
          assert.strictEqual(stateOf(yield* look(scene)), "unreachable")
          assert.strictEqual((yield* start(scene)).display?.execution, display?.execution)
          steering.answers = Effect.succeed(true)
          assert.strictEqual(stateOf(yield* look(scene)), "ready")
        }).pipe(onBoot)
    )
  })
})
