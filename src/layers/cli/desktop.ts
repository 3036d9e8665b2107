/** The verbs below `desktop`: start, show, stop, and the way of a VNC viewer to it. */
import * as Path from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Socket from "effect/socket/Socket"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { ago } from "../../infra/cli/text.ts"
import { desktopChannel, listenForViewers } from "../../infra/http/desktopClient.ts"
import type { DesktopView } from "../../infra/http/Views.ts"
import { connected, type Target } from "./connection.ts"
import { CliFailure, failed, outputClosed } from "./Failure.ts"
import { exitCodes } from "./exitCodes.ts"
import { Output } from "./Output.ts"

/** A desktop in lines. Pure. */
export const desktopLines = ({ display, state }: DesktopView, nowMillis: number): ReadonlyArray<string> =>
  display === null
    ? [`desktop: ${state}`]
    : [
        `desktop: ${state} since ${ago(display.startedAtMillis, nowMillis)}, viewers: ${display.viewers}`,
        `programs reach it with DISPLAY=${display.name}; execution ${display.execution}`
      ]

const told = Effect.fnUntraced(function* (desktop: DesktopView) {
  const output = yield* Output
  yield* output.result(desktop, desktopLines(desktop, yield* Clock.currentTimeMillis))
})

/** Starts a desktop in the Project's sandbox and prints it once it is ready. */
export const startDesktop = Effect.fn("cli.startDesktop")(function* (target: Target, project: string) {
  yield* connected(target, ({ call, client }) =>
    Effect.flatMap(call(client.desktop.start({ params: { project } })), told)
  )
})

/** Prints what there is of a desktop. */
export const showDesktop = Effect.fn("cli.showDesktop")(function* (target: Target, project: string) {
  yield* connected(target, ({ call, client }) =>
    Effect.flatMap(call(client.desktop.show({ params: { project } })), told)
  )
})

/** Ends the Project's desktop. */
export const stopDesktop = Effect.fn("cli.stopDesktop")(function* (target: Target, project: string) {
  const output = yield* Output
  yield* connected(target, ({ call, client }) => call(client.desktop.stop({ params: { project } })))
  yield* output.result({ project, state: "none" }, [`the desktop of ${project} is stopped`])
})

/** Refused before anybody listens: a viewer could not be told why. */
const requireReady = (target: Target, project: string) =>
  connected(target, ({ call, client }) =>
    Effect.flatMap(call(client.desktop.show({ params: { project } })), ({ state }) =>
      state === "ready"
        ? Effect.void
        : Effect.fail(
            new CliFailure({
              code: "desktop_not_ready",
              message: `the desktop of ${project} is not ready (${state}): \`holdfast desktop start ${project}\``,
              exit: exitCodes.conflict
            })
          )
    )
  )

const channelBroke = () => failed("connection_lost", "the connection to the desktop has ended")

/** One connection over standard input and output, until either side ends it. */
const overStandardStreams = Effect.fnUntraced(function* (channel: Socket.Socket) {
  const output = yield* Output
  const stdio = yield* Stdio.Stdio
  const { pull } = yield* Effect.mapError(channel.reader, channelBroke)
  const { write } = yield* channel.writer
  const shown = Effect.forever(
    Effect.flatMap(Effect.mapError(pull, channelBroke), (parts) =>
      Effect.forEach(
        parts,
        (part) => output.bytes("stdout", typeof part === "string" ? Buffer.from(part) : part),
        {
          discard: true
        }
      )
    )
  )
  const typed = stdio.stdin.pipe(
    Stream.mapError(outputClosed),
    Stream.runForEach((bytes) => Effect.mapError(write(bytes), channelBroke))
  )
  yield* Effect.raceFirst(typed, shown)
}, Effect.scoped)

const atSocket = Effect.fnUntraced(function* (channel: Effect.Effect<Socket.Socket>, path: string) {
  const output = yield* Output
  const refused = ({ code, message }: { readonly code: string; readonly message: string }) =>
    failed(code, message)
  const serving = yield* Effect.mapError(listenForViewers(path, channel), refused)
  yield* output.tell(`a viewer reaches the desktop with: vncviewer ${path}`)
  yield* output.record({ listening: path })
  return yield* Effect.mapError(serving, refused)
}, Effect.scoped)

/**
 * Leads viewers to the Project's desktop: one over the standard streams, or several at a socket that only its owner can
 * open, until interrupted.
 */
export const connectDesktop = Effect.fn("cli.connectDesktop")(function* (
  target: Target,
  { listen, project }: { readonly project: string; readonly listen: string | undefined }
) {
  yield* requireReady(target, project)
  const channel = desktopChannel(target.socketPath, project)
  if (listen !== undefined) return yield* atSocket(channel, Path.resolve(listen))
  yield* overStandardStreams(yield* channel)
})
