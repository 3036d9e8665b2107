/**
 * The desktops of this process: the register, a queue for each Project, and their common end. They use the services of
 * the boot that made them, the database's handle among them, and open none of their own. Source: SP-DESK-01.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { desktopsMax } from "../Bounds.ts"
import type { ProjectId } from "../Identity.ts"
import { makeGates } from "../registry/gates.ts"
import { type Admitted, makeDesktopRegister } from "./DesktopRegister.ts"
import type { Display } from "./display.ts"

export interface KeptDesktop {
  readonly display: Display
  /** Closing it ends the display and its lease. */
  readonly scope: Scope.Closeable
  readonly startedAtMillis: number
}

export type LiveDesktop = Admitted<KeptDesktop>

const makeDesktops = (watchers: Scope.Scope) => {
  const register = makeDesktopRegister<KeptDesktop>()
  const queues = makeGates<ProjectId>()

  /** Ends the Project's desktop, for a caller that stands at the head of its queue. */
  const endFound = (project: ProjectId): Effect.Effect<void> =>
    Effect.suspend(() => {
      const desktop = register.find(project)
      if (desktop === undefined) return Effect.void
      // It alone: whoever waits in the queue may be about to make its successor.
      register.fenceOne(desktop)
      return Effect.andThen(
        Scope.close(desktop.kept.scope, Exit.void),
        Effect.sync(() => register.end(desktop))
      )
    }).pipe(Effect.uninterruptible)

  /** Ends a desktop whose display has ended, or is being cancelled. */
  const watch = (desktop: LiveDesktop): Effect.Effect<void> =>
    Effect.gen(function* () {
      const { ended, handle } = desktop.kept.display
      yield* Effect.raceFirst(ended, handle.cancelRequested)
      register.fenceOne(desktop)
      const end = Effect.suspend(() =>
        register.find(desktop.project) === desktop ? endFound(desktop.project) : Effect.void
      )
      yield* queues.exclusive(desktop.project, end)
    }).pipe(Effect.forkIn(watchers), Effect.asVoid)

  /**
   * Fences whatever is admitted, being prepared or looked at, for good; then waits until each queue is empty, the
   * preparations included that have admitted nothing, and ends what is left. Source: SP-DESK-02.
   */
  const dispose: Effect.Effect<void> = Effect.suspend(() =>
    Effect.forEach(register.dispose(), (project) => queues.exclusive(project, endFound(project)), {
      concurrency: desktopsMax,
      discard: true
    })
  ).pipe(Effect.uninterruptible)

  return { register, queues, endFound, watch, dispose }
}

export class Desktops extends Context.Service<Desktops, ReturnType<typeof makeDesktops>>()(
  "holdfast/domain/desktop/Desktops"
) {
  /** Disposed with the layer, before anything that was there before it. */
  static readonly layer: Layer.Layer<Desktops> = Layer.effect(
    Desktops,
    Effect.gen(function* () {
      const watchers = yield* Scope.make()
      const desktops = makeDesktops(watchers)
      yield* Effect.addFinalizer((exit) => Effect.andThen(desktops.dispose, Scope.close(watchers, exit)))
      return desktops
    })
  )
}
