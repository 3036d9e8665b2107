/**
 * One viewer at a Project's desktop. He gets a connection of his own, for as long as the desktop is admitted and he may
 * write to the Project; both are looked at again while he is there. Source: SP-DESK-02, SP-DESK-05.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import { desktopAccessMillis, desktopViewersMax } from "../Bounds.ts"
import type { Caller } from "../host/Accounts.ts"
import type { ProjectId } from "../Identity.ts"
import { DesktopNotReady, DesktopsDisposed, DesktopsFull } from "./Desktop.ts"
import { Desktops, type LiveDesktop } from "./Desktops.ts"
import { describeDesktop, lookAtRuntime, unlessDisposed } from "./description.ts"
import { endpointOf } from "./display.ts"
import { Displays } from "./Displays.ts"

/** Lets the viewer in for the time of the scope. */
const enter = (desktop: LiveDesktop) =>
  Effect.flatMap(Desktops, ({ register }) => {
    const { project } = desktop
    const entering = Effect.gen(function* () {
      const entered = register.enter(desktop)
      if (entered === "fenced") return yield* new DesktopNotReady({ project, state: "none" })
      if (entered === "full")
        return yield* new DesktopsFull({ project, of: "viewers", max: desktopViewersMax })
    })
    return Effect.acquireRelease(entering, () => Effect.sync(() => register.leave(desktop)))
  })

/** Returns once the viewer may no longer write to the Project, or nothing may be asked any more. */
const untilRefused = Effect.fnUntraced(function* (caller: Caller, project: ProjectId) {
  const look = unlessDisposed(lookAtRuntime(caller, project, "write")).pipe(
    Effect.map(Option.isSome),
    Effect.catchTag("AccessRefused", () => Effect.succeed(false)),
    Effect.catch((failure) =>
      Effect.as(Effect.logWarning(`a viewer's access was not looked up: ${failure.message}`), true)
    )
  )
  const looking = Effect.repeat(look, { while: (may) => may, schedule: Schedule.spaced(desktopAccessMillis) })
  yield* Effect.delay(looking, desktopAccessMillis)
})

/**
 * Connects a viewer to the Project's desktop for the time of the scope. `over` returns when he has to go: the desktop was
 * stopped, its machine replaced, the daemon ends, or his access was taken. Refused with `AccessRefused`, `DesktopNotReady`,
 * `DesktopsFull`, `DesktopsDisposed`, and `DisplayLost`.
 */
export const viewDesktop = Effect.fn("desktop.view")(function* (caller: Caller, project: ProjectId) {
  const { register } = yield* Desktops
  const { connect } = yield* Displays
  const described = yield* describeDesktop(caller, project, "write")
  if (described === null) return yield* new DesktopsDisposed({ project })
  const desktop = register.find(project)
  if (described.state !== "ready" || desktop === undefined) {
    return yield* new DesktopNotReady({ project, state: described.state })
  }
  yield* enter(desktop)
  const connection = yield* connect(yield* endpointOf(desktop.kept.display))
  if (!register.isAdmitted(desktop)) return yield* new DesktopNotReady({ project, state: "none" })
  return { connection, over: Effect.raceFirst(desktop.fenced.await, untilRefused(caller, project)) }
})
