/**
 * One display in a Project's guest, from its admission to its end: an execution under a lease of its own. Whether it may
 * be shown to anybody is decided elsewhere. Source: SP-DESK-05, SP-LEASE-07.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { desktopReadyMillisMax, desktopReadyPollMillis } from "../Bounds.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { Caller } from "../host/Accounts.ts"
import type { ProjectId } from "../Identity.ts"
import { executeLeased } from "../leases/executeLeased.ts"
import { admitExecution, type LeaseHandle } from "../leases/execution.ts"
import { labelOfCommand } from "../leases/Lease.ts"
import { lookUpEndpoint } from "../registry/endpoint.ts"
import { DesktopFailed, DesktopUnavailable } from "./Desktop.ts"
import { Displays } from "./Displays.ts"

/** How a display ended: the status of its command, or null where the guest could not tell. */
type DisplayEnd = number | null

export interface Display {
  readonly handle: LeaseHandle
  /** Completes once its processes are gone, or cannot be told of any more. */
  readonly ended: Effect.Effect<DisplayEnd>
}

/**
 * Starts a display in the Project's machine and holds its lease; the end of the scope ends both. It gets no launch
 * credentials: they could not be taken out of a picture. Refused with what `admitExecution` refuses, and by the guest.
 */
export const openDisplay = Effect.fn("desktop.openDisplay")(function* (caller: Caller, project: ProjectId) {
  const supervisor = yield* GuestSupervisor
  const { command } = yield* Displays
  const handle = yield* admitExecution(caller, { project, label: labelOfCommand(["desktop"]) })
  const events = yield* executeLeased(handle, supervisor.execute(handle.sandbox, command))
  const ended = yield* Deferred.make<DisplayEnd>()
  let status: DisplayEnd = null
  yield* Stream.runForEach(events, (event) =>
    Effect.sync(() => {
      if (event._tag === "Exited") status = event.exitCode
    })
  ).pipe(
    Effect.catch((failure) =>
      Effect.logWarning(`the display of project ${project} cannot be told of any more: ${failure.message}`)
    ),
    Effect.ensuring(Effect.suspend(() => Deferred.succeed(ended, status))),
    Effect.forkScoped
  )
  return { handle, ended: Deferred.await(ended) } satisfies Display
})

/** The socket behind which the display of this guest listens, looked up and proved anew. Source: RG-RUN-01. */
export const endpointOf = Effect.fnUntraced(function* ({ handle }: Display) {
  const { port } = yield* Displays
  const { path } = yield* lookUpEndpoint(handle.sandbox, port)
  return path
})

/** Whether the display answers right now; a guest that stands still, or has gone, answers nothing. */
export const answersNow = Effect.fnUntraced(function* (display: Display) {
  const { answers } = yield* Displays
  return yield* endpointOf(display).pipe(
    Effect.flatMap(answers),
    Effect.catch(() => Effect.succeed(false))
  )
})

/** Why a display that has ended by itself did so. */
const whyEnded = Effect.fnUntraced(function* (project: ProjectId, end: DisplayEnd) {
  const { whyMissing } = yield* Displays
  const missing = end === null ? null : whyMissing(end)
  if (missing !== null) return yield* new DesktopUnavailable({ project, why: missing })
  return yield* new DesktopFailed({ project, why: "its display ended before it had answered" })
})

/** Waits until the display answers. Refused with `DesktopUnavailable` and `DesktopFailed`. */
export const awaitAnswer = Effect.fnUntraced(function* (project: ProjectId, display: Display) {
  const { answers } = yield* Displays
  const path = yield* endpointOf(display).pipe(
    Effect.catchTag("GuestCallUnsupported", ({ why }) =>
      Effect.fail(new DesktopUnavailable({ project, why: `its display cannot be reached: ${why}` }))
    )
  )
  const answering = answers(path).pipe(
    Effect.repeat({ until: (answered) => answered, schedule: Schedule.spaced(desktopReadyPollMillis) }),
    Effect.timeoutOrElse({
      duration: desktopReadyMillisMax,
      orElse: () =>
        Effect.fail(
          new DesktopFailed({ project, why: `its display did not answer within ${desktopReadyMillisMax} ms` })
        )
    })
  )
  yield* Effect.raceFirst(
    answering,
    Effect.flatMap(display.ended, (end) => whyEnded(project, end))
  )
})
