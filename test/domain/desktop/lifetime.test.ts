/** A desktop's beginning and end: admission, the fence, and what is drained behind it. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { Desktops } from "../../../src/domain/desktop/Desktops.ts"
import { describeDesktop } from "../../../src/domain/desktop/description.ts"
import { startDesktop, stopDesktop } from "../../../src/domain/desktop/lifetime.ts"
import { viewDesktop } from "../../../src/domain/desktop/viewing.ts"
import { ExecutionEvent, GuestCapabilities } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import { AccountId } from "../../../src/domain/Identity.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { Clone } from "../../support/clone.ts"
import { makeBarrier } from "../../support/sideBySide.ts"
import { inTime, waitFor } from "../../support/waiting.ts"
import { admitDeletion, count, Scripted } from "../removal/fixture.ts"
import {
  codeOf,
  fixture,
  heldAt,
  leasesOf,
  machineOf,
  missingStatus,
  onBoot,
  oneRuns,
  playDisplay,
  refusalOf,
  replaceUnannounced,
  Steered
} from "./fixture.ts"

const live = { excludeTestServices: true, timeout: "30 seconds" } as const

const ended = (exitCode: number) => [ExecutionEvent.cases.Exited.make({ exitCode, ended: "exited" })]

describe("desktop/lifetime", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("a desktop is started once, told as it is, and gone when it was stopped", () =>
      Effect.gen(function* () {
        const { caller, project } = yield* machineOf
        const steering = yield* Steered
        const [one, other] = yield* Effect.all(
          [startDesktop(caller, project), startDesktop(caller, project)],
          {
            concurrency: 2
          }
        )
        assert.deepStrictEqual(one, other)
        assert.strictEqual(one.state, "ready")
        assert.deepStrictEqual(yield* describeDesktop(caller, project, "read"), one)
        const [lease] = yield* leasesOf(project)
        assert.deepStrictEqual([lease?.id, lease?.label], [one.display?.execution, "desktop"])
        yield* oneRuns
        yield* stopDesktop(caller, project)
        yield* stopDesktop(caller, project)
        assert.strictEqual(steering.running, 0)
        assert.deepStrictEqual(yield* leasesOf(project), [])
        assert.strictEqual((yield* describeDesktop(caller, project, "read"))?.state, "none")
      }).pipe(onBoot)
    )

    it.effect("SP-DESK-01 a desktop works on the boot's own connections, and opens none", () =>
      Effect.gen(function* () {
        const { caller, project } = yield* machineOf
        const { admin } = yield* Clone
        const names = admin(
          `select distinct application_name as name from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`
        )
        const before = yield* names
        assert.lengthOf(before, 1)
        yield* startDesktop(caller, project)
        yield* describeDesktop(caller, project, "read")
        yield* Effect.scoped(viewDesktop(caller, project))
        assert.deepStrictEqual(yield* names, before)
        yield* stopDesktop(caller, project)
        assert.deepStrictEqual(yield* names, before)
      }).pipe(onBoot)
    )

    it.effect(
      "SP-ADM-01 SP-ADM-04 a desktop is refused to strangers, and of a Project that is being deleted",
      () =>
        Effect.gen(function* () {
          const scene = yield* machineOf
          const { caller, project } = scene
          const stranger = new Caller({
            ...caller,
            account: AccountId.make("00000000-0000-4000-8000-0000000000ff")
          })
          const refusals = yield* Effect.all([
            refusalOf(startDesktop(stranger, project)),
            refusalOf(stopDesktop(stranger, project)),
            refusalOf(describeDesktop(stranger, project, "read")),
            refusalOf(Effect.scoped(viewDesktop(stranger, project)))
          ])
          assert.deepStrictEqual([...new Set(refusals)], ["access_refused"])
          yield* admitDeletion(scene, (yield* describeProjectRemoval(project)).paths)
          assert.strictEqual(codeOf(yield* Effect.exit(startDesktop(caller, project))), "project_not_active")
          assert.strictEqual((yield* Steered).running, 0)
        }).pipe(onBoot)
    )

    it.effect(
      "SP-DESK-05 a daemon that cannot lead ports out refuses a desktop before it begins anything",
      () =>
        Effect.gen(function* () {
          const { caller, project } = yield* machineOf
          const portless = Effect.updateService(GuestSupervisor, (supervisor) => ({
            ...supervisor,
            capabilities: new GuestCapabilities({ ...supervisor.capabilities, ports: false })
          }))
          const { begun } = yield* Steered
          const before = begun.length
          const refused = yield* Effect.flip(startDesktop(caller, project).pipe(portless))
          assert.deepInclude(refused, { code: "desktop_unavailable", project })
          assert.include(refused.message, "run the daemon as root, with socat")
          assert.deepStrictEqual(begun.slice(before), [])
        }).pipe(onBoot)
    )

    it.effect(
      "a guest that lacks the display is refused by name, one whose display dies at once has failed",
      () =>
        Effect.gen(function* () {
          const { caller, project } = yield* machineOf
          const steering = yield* Steered
          const { guests } = yield* Scripted
          steering.answers = Effect.never
          playDisplay(guests, Effect.succeed(ended(missingStatus)))
          const missing = yield* Effect.flip(startDesktop(caller, project))
          assert.deepInclude(missing, { code: "desktop_unavailable", why: "its guest has no display" })
          playDisplay(guests, Effect.succeed(ended(1)))
          assert.strictEqual(codeOf(yield* Effect.exit(startDesktop(caller, project))), "desktop_failed")
          assert.deepStrictEqual(yield* leasesOf(project), [])
        }).pipe(onBoot)
    )

    it.effect("a display that ends by itself takes its desktop, its lease and its viewers with it", () =>
      Effect.gen(function* () {
        const { caller, project } = yield* machineOf
        const { guests } = yield* Scripted
        const barrier = yield* makeBarrier("the display's life")
        playDisplay(guests, Effect.as(barrier.arrive, ended(0)))
        yield* startDesktop(caller, project)
        const { over } = yield* viewDesktop(caller, project)
        yield* barrier.open
        yield* inTime("the viewer goes", over)
        yield* waitFor({
          fact: "its lease goes",
          look: leasesOf(project),
          holds: (left) => left.length === 0
        })
        assert.strictEqual((yield* describeDesktop(caller, project, "read"))?.state, "none")
      }).pipe(onBoot)
    )

    it.effect(
      "SP-DESK-02 a disposal drains a cold preparation that has admitted nothing, wherever it is",
      () =>
        Effect.gen(function* () {
          const points = [
            ["before", "leases.admitExecution"],
            ["behind", "leases.admitExecution"],
            ["before", "LeaseStore.whyUnusable"],
            ["behind", "LeaseStore.whyUnusable"]
          ] as const
          for (const [side, operation] of points) {
            const { caller, project } = yield* machineOf
            yield* Effect.gen(function* () {
              const steering = yield* Steered
              const { dispose } = yield* Desktops
              const barrier = yield* heldAt(side, operation)
              const starting = yield* Effect.forkChild(Effect.exit(startDesktop(caller, project)))
              yield* barrier.reached
              const disposing = yield* Effect.forkChild(dispose)
              assert.strictEqual(
                codeOf(yield* Fiber.join(starting)),
                "desktops_disposed",
                `${side} ${operation}`
              )
              yield* inTime(`the disposal, ${side} ${operation}`, Fiber.join(disposing))
              assert.strictEqual(steering.running, 0)
              assert.deepStrictEqual(yield* leasesOf(project), [])
            }).pipe(onBoot)
          }
        })
    )

    it.effect(
      "SP-DESK-02 a disposal waits for the end of a preparation's display, and for a stop that is at work",
      () =>
        Effect.gen(function* () {
          for (const isAdmitted of [false, true]) {
            const { caller, project } = yield* machineOf
            yield* Effect.gen(function* () {
              const steering = yield* Steered
              const { dispose } = yield* Desktops
              const ending = yield* makeBarrier("the display's end")
              const asked = yield* makeBarrier("the display is asked")
              steering.ending = ending.arrive
              if (!isAdmitted) steering.answers = Effect.as(asked.arrive, false)
              const starting = Effect.asVoid(Effect.exit(startDesktop(caller, project)))
              const stopping = Effect.asVoid(Effect.exit(stopDesktop(caller, project)))
              if (isAdmitted) yield* starting
              const atWork = yield* Effect.forkChild(isAdmitted ? stopping : starting)
              yield* isAdmitted ? ending.reached : asked.reached
              yield* oneRuns
              const disposing = yield* Effect.forkChild(dispose)
              yield* ending.reached
              for (let turn = 0; turn < 100; turn += 1) yield* Effect.yieldNow
              assert.isUndefined(disposing.pollUnsafe())
              yield* ending.open
              yield* inTime("the disposal", Fiber.join(disposing))
              yield* inTime("the one at work", Fiber.join(atWork))
              assert.strictEqual(steering.running, 0)
              assert.deepStrictEqual(yield* leasesOf(project), [])
            }).pipe(onBoot)
          }
        })
    )

    it.effect("SP-LEASE-07 a display of a machine that was replaced while it came up is not admitted", () =>
      Effect.gen(function* () {
        const scene = yield* machineOf
        const { caller, project } = scene
        const steering = yield* Steered
        const asked = yield* makeBarrier("the display is asked")
        steering.answers = Effect.as(asked.arrive, true)
        const starting = yield* Effect.forkChild(Effect.flip(startDesktop(caller, project)))
        yield* asked.reached
        yield* replaceUnannounced(scene)
        yield* asked.open
        assert.deepInclude(yield* Fiber.join(starting), { code: "lease_lost", reason: "generation" })
        assert.strictEqual(steering.running, 0)
        assert.deepStrictEqual(yield* leasesOf(project), [])
      }).pipe(onBoot)
    )

    it.effect("a stop overtakes a start, wherever that one is", () =>
      Effect.gen(function* () {
        for (const operation of ["leases.admitExecution", "LeaseStore.whyUnusable"]) {
          const { caller, project } = yield* machineOf
          yield* Effect.gen(function* () {
            const barrier = yield* heldAt("behind", operation)
            const starting = yield* Effect.forkChild(Effect.exit(startDesktop(caller, project)))
            yield* barrier.reached
            assert.strictEqual((yield* describeDesktop(caller, project, "read"))?.state, "preparing")
            yield* inTime("the stop", stopDesktop(caller, project))
            assert.strictEqual(codeOf(yield* Fiber.join(starting)), "desktop_not_ready")
            assert.strictEqual((yield* Steered).running, 0)
            assert.deepStrictEqual(yield* leasesOf(project), [])
          }).pipe(onBoot)
        }
      })
    )

    it.effect("SP-DEL-10 a deletion of the Project ends its desktop, and nothing of it is left", () =>
      Effect.gen(function* () {
        const scene = yield* machineOf
        const { caller, project } = scene
        const { register } = yield* Desktops
        yield* startDesktop(caller, project)
        const { over } = yield* viewDesktop(caller, project)
        yield* admitDeletion(scene, (yield* describeProjectRemoval(project)).paths)
        yield* removeProject(project)
        yield* inTime("the viewer goes", over)
        yield* waitFor({
          fact: "the desktop is forgotten",
          look: Effect.sync(() => register.find(project)),
          holds: (found) => found === undefined
        })
        assert.strictEqual((yield* Steered).running, 0)
        assert.strictEqual(
          yield* count("select count(*) from execution_leases where project_id = $1", project),
          0
        )
      }).pipe(onBoot)
    )
  })
})
