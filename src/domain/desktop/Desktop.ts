/**
 * A Project's desktop: a display in its guest that viewers reach through the daemon. It lives as long as its display,
 * its machine and the daemon that started it, whichever ends first; nothing of it is stored but the execution lease that
 * it runs under. Here are what is told of one, and why there is none.
 */
import * as Schema from "effect/Schema"
import { Generation, LeaseId, ProjectId } from "../Identity.ts"

/**
 * - `none`: no display, and nobody makes one.
 * - `preparing`: a display is being started, and nobody has seen it answer yet.
 * - `ready`: it answered right now, in the machine that is the Project's right now.
 * - `unreachable`: it is admitted and does not answer, such as in a guest that stands still.
 */
export const DesktopState = Schema.Literals(["none", "preparing", "ready", "unreachable"])
export type DesktopState = typeof DesktopState.Type

/** An admitted display, as it is told. */
export class DisplayDescription extends Schema.Class<DisplayDescription>("holdfast/DisplayDescription")({
  /** The execution that carries it, by which it can be cancelled. */
  execution: LeaseId,
  generation: Generation,
  /** Name of the display for programs in the guest. */
  name: Schema.String,
  startedAtMillis: Schema.Int,
  viewers: Schema.Int
}) {}

export class DesktopDescription extends Schema.Class<DesktopDescription>("holdfast/DesktopDescription")({
  project: ProjectId,
  state: DesktopState,
  /** Null unless a display is admitted. */
  display: Schema.NullOr(DisplayDescription)
}) {}

/** The guest, or this machine, cannot carry a desktop. */
export class DesktopUnavailable extends Schema.TaggedError<DesktopUnavailable>()("DesktopUnavailable", {
  project: ProjectId,
  why: Schema.String
}) {
  readonly code = "desktop_unavailable"
  override get message(): string {
    return `project ${this.project} cannot have a desktop: ${this.why}`
  }
}

/** The display was started and did not come up. What was started of it has been ended. */
export class DesktopFailed extends Schema.TaggedError<DesktopFailed>()("DesktopFailed", {
  project: ProjectId,
  why: Schema.String
}) {
  readonly code = "desktop_failed"
  override get message(): string {
    return `the desktop of project ${this.project} did not come up: ${this.why}`
  }
}

/** There is no desktop to look at: none was started, or it was stopped meanwhile. */
export class DesktopNotReady extends Schema.TaggedError<DesktopNotReady>()("DesktopNotReady", {
  project: ProjectId,
  state: DesktopState
}) {
  readonly code = "desktop_not_ready"
  override get message(): string {
    return this.state === "none"
      ? `project ${this.project} has no desktop: start one`
      : `the desktop of project ${this.project} is ${this.state}: ask again in a moment`
  }
}

/** As many desktops, or viewers of one, as there may be. Source: FC-15. */
export class DesktopsFull extends Schema.TaggedError<DesktopsFull>()("DesktopsFull", {
  project: ProjectId,
  of: Schema.Literals(["desktops", "viewers"]),
  max: Schema.Int
}) {
  readonly code = "desktops_full"
  override get message(): string {
    return this.of === "desktops"
      ? `project ${this.project} gets no desktop: the daemon works on ${this.max}, as many as it may; stop one`
      : `the desktop of project ${this.project} has ${this.max} viewers, as many as it may have: close one`
  }
}

/** The daemon is ending, and its desktops with it. Source: SP-DESK-02. */
export class DesktopsDisposed extends Schema.TaggedError<DesktopsDisposed>()("DesktopsDisposed", {
  project: ProjectId
}) {
  readonly code = "desktops_disposed"
  override get message(): string {
    return `the daemon is ending, and has no desktop for project ${this.project}: start one when it is up again`
  }
}
