/**
 * Adapter of Displays: TigerVNC's Xvnc on the guest's loopback, with no password of its own, since nobody but the guest
 * itself gets there without the daemon. It is a child of a small script in the guest, which also begins a session: what
 * the workspace has as `.xsession`, else a terminal.
 */
import * as NodeSocket from "@effect/platform-node/NodeSocket"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { desktopLifeMillisMax, displayAnswerMillisMax } from "../../domain/Bounds.ts"
import { type DisplayConnection, DisplayLost, Displays } from "../../domain/desktop/Displays.ts"
import { GuestCommand } from "../../domain/guests/GuestSpec.ts"

const displayNumber = 1
const displayName = `:${displayNumber}`
/** Xvnc's own port for that display. */
const displayPort = 5900 + displayNumber
const serverMissing = 71

/**
 * What a killed server has left behind would keep the next one from its place. The blacklist is of no use where every
 * viewer comes from the same address. Output goes nowhere: a program's words are nobody's business here.
 */
export const displayScript = `exec >/dev/null 2>&1
command -v Xvnc || exit ${serverMissing}
mkdir -p -m 1777 /tmp/.X11-unix
rm -f /tmp/.X${displayNumber}-lock /tmp/.X11-unix/X${displayNumber}
Xvnc ${displayName} -geometry 1280x800 -depth 24 -nolisten tcp -localhost -rfbport ${displayPort} \\
  -SecurityTypes None -UseBlacklist=0 -AlwaysShared -noreset &
server=$!
until [ -S /tmp/.X11-unix/X${displayNumber} ]; do
  kill -0 "$server" || exit 1
  sleep 0.02
done
export DISPLAY=${displayName}
if [ -x .xsession ]; then ./.xsession & else xterm & fi
wait "$server"
`

const missingText =
  "its guest has no Xvnc: install tigervnc-standalone-server (and xterm) there; for the image `host`, on this machine by scripts/setup"

const command = new GuestCommand({
  argv: ["/bin/sh", "-c", displayScript],
  environment: {},
  workingDirectory: "/workspace",
  standardInput: null,
  timeoutMillis: desktopLifeMillisMax
})

const lost = () => new DisplayLost()

const connect = Effect.fnUntraced(function* (path: string) {
  const socket = yield* NodeSocket.makeNet({ path })
  const { pull } = yield* Effect.mapError(socket.reader, lost)
  const { write } = yield* socket.writer
  const bytes = Effect.map(pull, (parts) => parts.map((part) => Buffer.from(part)))
  return {
    incoming: Stream.fromEffectRepeat(bytes).pipe(Stream.mapError(lost), Stream.flatMap(Stream.fromIterable)),
    write: (sent) => Effect.mapError(write(sent), lost)
  } satisfies DisplayConnection
})

const greeting = "RFB "

/** Whether whoever listens begins as a display does. */
const answers = (path: string): Effect.Effect<boolean> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { incoming } = yield* connect(path)
      const first = yield* Stream.runHead(incoming)
      return first._tag === "Some" && Buffer.from(first.value).toString("latin1").startsWith(greeting)
    })
  ).pipe(
    Effect.timeoutOption(displayAnswerMillisMax),
    Effect.map((answered) => answered._tag === "Some" && answered.value),
    Effect.catch(() => Effect.succeed(false))
  )

export const layer: Layer.Layer<Displays> = Layer.succeed(
  Displays,
  Displays.of({
    command,
    port: displayPort,
    name: displayName,
    whyMissing: (exitCode) => (exitCode === serverMissing ? missingText : null),
    answers,
    connect
  })
)
