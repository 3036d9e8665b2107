/** The commands on a Project's desktop: flags and help. What they do is loaded when one is run. */
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { load, projectArgument, running, undefinedOr } from "./root.ts"

const project = { project: projectArgument }
const verbs = load(() => import("./desktop.ts"))

const start = Command.make("start", project, (flags) =>
  running((place) => Effect.flatMap(verbs, ({ startDesktop }) => startDesktop(place, flags.project)))
).pipe(
  Command.withDescription(
    "Start a desktop in the Project's sandbox; one that is there already is left as it is"
  )
)

const show = Command.make("show", project, (flags) =>
  running((place) => Effect.flatMap(verbs, ({ showDesktop }) => showDesktop(place, flags.project)))
).pipe(Command.withDescription("Show whether the Project has a desktop, and since when"))

const stop = Command.make("stop", project, (flags) =>
  running((place) => Effect.flatMap(verbs, ({ stopDesktop }) => stopDesktop(place, flags.project)))
).pipe(Command.withDescription("End the Project's desktop with everything that was started on it"))

const connect = Command.make(
  "connect",
  {
    ...project,
    listen: Flag.String("listen").pipe(
      Flag.optional,
      Flag.withMetavar("PATH"),
      Flag.withDescription(
        "Listen at a UNIX socket of mode 0600 until interrupted, for viewers such as `vncviewer PATH`; else this one connection goes over standard input and output"
      )
    )
  },
  (flags) =>
    running((place) =>
      Effect.flatMap(verbs, ({ connectDesktop }) =>
        connectDesktop(place, { project: flags.project, listen: undefinedOr(flags.listen) })
      )
    )
).pipe(Command.withDescription("Lead a VNC viewer to the Project's desktop"))

export const desktop = Command.make("desktop").pipe(
  Command.withDescription("Start, show, stop and reach the desktop of a Project's sandbox"),
  Command.withSubcommands([start, show, stop, connect])
)
