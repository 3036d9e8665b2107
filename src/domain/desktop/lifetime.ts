/**
 * Starting and stopping a Project's desktop, one at a time in the Project's queue. A start that a stop or a disposal
 * overtakes gives up, whatever it is waiting for, and takes back what it has begun. Source: SP-DESK-02.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { desktopsMax } from "../Bounds.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { Caller } from "../host/Accounts.ts"
import type { ProjectId } from "../Identity.ts"
import { DesktopNotReady, DesktopsDisposed, DesktopsFull, DesktopUnavailable } from "./Desktop.ts"
import type { Fenced } from "./DesktopRegister.ts"
import { Desktops, type KeptDesktop } from "./Desktops.ts"
import { describeDesktop, describedAs, lookAtRuntime } from "./description.ts"
import { awaitAnswer, openDisplay } from "./display.ts"

/** Why what was begun is not gone on with. */
const overtaken = Effect.fnUntraced(function* (project: ProjectId) {
  const { register } = yield* Desktops
  if (register.isDisposed()) return yield* new DesktopsDisposed({ project })
  return yield* new DesktopNotReady({ project, state: "none" })
})

/** Makes the display that answers the Project's desktop, unless its preparation was fenced meanwhile. */
const admit = Effect.fnUntraced(function* (preparation: Fenced, kept: Omit<KeptDesktop, "startedAtMillis">) {
  const { register, watch } = yield* Desktops
  const startedAtMillis = yield* Clock.currentTimeMillis
  const desktop = register.admit(preparation, { ...kept, startedAtMillis })
  if (desktop === null) return yield* overtaken(preparation.project)
  yield* watch(desktop)
  return yield* describedAs(preparation.project, "ready", desktop)
}, Effect.uninterruptible)

/** Starts a display and admits it once it answers; one that is not admitted is ended, with its lease. */
const begin = Effect.fnUntraced(function* (caller: Caller, preparation: Fenced) {
  const { project } = preparation
  const scope = yield* Scope.make()
  const beginning = Effect.gen(function* () {
    const display = yield* openDisplay(caller, project)
    yield* awaitAnswer(project, display)
    // The machine may have been replaced, or the execution cancelled, while the display came up.
    yield* display.handle.confirm
    return yield* admit(preparation, { display, scope })
  })
  return yield* beginning.pipe(
    Scope.provide(scope),
    Effect.onExit((exit) => (Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void))
  )
})

const prepare = Effect.fnUntraced(function* (caller: Caller, preparation: Fenced) {
  const { project } = preparation
  const { endFound, register } = yield* Desktops
  const { capabilities } = yield* GuestSupervisor
  // One that was fenced before its turn begins nothing, whether or not it has noticed.
  if (preparation.isFenced) return yield* overtaken(project)
  if (register.find(project) !== undefined) {
    const described = yield* describeDesktop(caller, project, "write")
    if (described?.display != null) return described
    yield* endFound(project)
  }
  if (!capabilities.ports) {
    return yield* new DesktopUnavailable({
      project,
      why: "the ports of its guest cannot be led out: run the daemon as root, with socat"
    })
  }
  return yield* begin(caller, preparation)
})

/**
 * Starts the Project's desktop and answers once it is ready; one that is there already is answered as it is. Refused with
 * what `admitExecution` refuses, with `DesktopUnavailable` where guest or machine cannot carry one, `DesktopFailed`,
 * `DesktopsFull`, and with `DesktopNotReady` or `DesktopsDisposed` when a stop or a disposal came first.
 */
export const startDesktop = Effect.fn("desktop.start")(function* (caller: Caller, project: ProjectId) {
  const { queues, register } = yield* Desktops
  return yield* Effect.acquireUseRelease(
    Effect.gen(function* () {
      if (register.isDisposed()) return yield* new DesktopsDisposed({ project })
      const preparation = register.prepare(project)
      if (preparation !== null) return preparation
      return yield* new DesktopsFull({ project, of: "desktops", max: desktopsMax })
    }),
    (preparation) =>
      Effect.raceFirst(
        queues.exclusive(project, prepare(caller, preparation)),
        Effect.andThen(preparation.fenced.await, overtaken(project))
      ),
    (preparation) => Effect.sync(() => register.prepared(preparation))
  )
})

/**
 * Ends the Project's desktop and whatever is being prepared of it; returns when nothing of it runs. Repeatable. Refused
 * with `AccessRefused` and `DesktopsDisposed`.
 */
export const stopDesktop = Effect.fn("desktop.stop")(function* (caller: Caller, project: ProjectId) {
  const { endFound, queues, register } = yield* Desktops
  if (register.isDisposed()) return yield* new DesktopsDisposed({ project })
  yield* lookAtRuntime(caller, project, "write")
  register.fence(project)
  yield* queues.exclusive(project, endFound(project))
})
