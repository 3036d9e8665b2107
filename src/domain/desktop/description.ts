/**
 * What is told of a Project's desktop. Every answer of the world is followed by a look at the fence: behind a disposal no
 * statement is begun any more, and a display that was fenced meanwhile is not told as ready. Source: SP-DESK-03, SP-DESK-04.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type Caller, HostAccounts } from "../host/Accounts.ts"
import type { ProjectId } from "../Identity.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { DesktopDescription, DisplayDescription, type DesktopState } from "./Desktop.ts"
import { decideState, isMachineOf } from "./desktopDecision.ts"
import { Desktops, type LiveDesktop } from "./Desktops.ts"
import { answersNow } from "./display.ts"
import { Displays } from "./Displays.ts"

/** Reading is looking at what there is; writing is seeing the screen, where whoever sees it also types. */
export type DesktopAccess = "read" | "write"

/** The runtime's row, read in the snapshot in which the access is checked. Refused with `AccessRefused`. */
export const lookAtRuntime = Effect.fnUntraced(function* (
  caller: Caller,
  project: ProjectId,
  access: DesktopAccess
) {
  const runtimes = yield* RuntimeStore
  const accounts = yield* HostAccounts
  return yield* runtimes.snapshot("desktop.look", (store) =>
    Effect.andThen(accounts.requireAccess(caller, project, access), store.runtime(project))
  )
})

/**
 * The answer of a look, or none where the desktops were disposed before it was begun, or while it was awaited; then its
 * failure is none either, since the pool that it used may be closed. Source: SP-DESK-03.
 */
export const unlessDisposed = <A, E, R>(
  look: Effect.Effect<A, E, R>
): Effect.Effect<Option.Option<A>, E, R | Desktops> =>
  Effect.flatMap(Desktops, ({ register }) =>
    register.isDisposed()
      ? Effect.succeedNone
      : Effect.flatMap(Effect.exit(look), (exit) =>
          register.isDisposed() ? Effect.succeedNone : Effect.asSome(exit)
        )
  )

/** A desktop as it is told. */
export const describedAs = Effect.fnUntraced(function* (
  project: ProjectId,
  state: DesktopState,
  desktop: LiveDesktop | undefined
) {
  const { name } = yield* Displays
  if (desktop === undefined || state === "none" || state === "preparing") {
    return new DesktopDescription({ project, state, display: null })
  }
  const { display, startedAtMillis } = desktop.kept
  const { generation, id: execution } = display.handle.lease
  return new DesktopDescription({
    project,
    state,
    display: new DisplayDescription({
      execution,
      generation,
      name,
      startedAtMillis,
      viewers: desktop.viewers
    })
  })
})

const isLeaseHeld = ({ display }: LiveDesktop["kept"]) =>
  display.handle.confirm.pipe(
    Effect.as(true),
    Effect.catchTag("LeaseLost", () => Effect.succeed(false))
  )

/**
 * Describes the Project's desktop, or answers null once the desktops are disposed. Refused with `AccessRefused`. Costs one
 * snapshot and, where there is a desktop, one statement and a look at its display.
 */
export const describeDesktop = Effect.fn("desktop.describe")(function* (
  caller: Caller,
  project: ProjectId,
  access: DesktopAccess
) {
  const { register } = yield* Desktops
  const read = yield* unlessDisposed(lookAtRuntime(caller, project, access))
  if (Option.isNone(read)) return null
  const desktop = register.find(project)
  if (desktop === undefined) {
    return yield* describedAs(project, register.isPreparing(project) ? "preparing" : "none", undefined)
  }
  const { handle } = desktop.kept.display
  const answers = yield* unlessDisposed(answersNow(desktop.kept.display))
  if (Option.isNone(answers)) return null
  const held = yield* unlessDisposed(isLeaseHeld(desktop.kept))
  if (Option.isNone(held)) return null
  const { generation, sandbox } = handle.lease
  const state = decideState({
    isCancelled: yield* handle.isCancelled,
    isAdmitted: register.isAdmitted(desktop),
    isMachineOfNow: isMachineOf(Option.getOrUndefined(read.value), { generation, sandbox }),
    isLeaseHeld: held.value,
    answers: answers.value,
    isPreparing: register.isPreparing(project)
  })
  return yield* describedAs(project, state, desktop)
})
