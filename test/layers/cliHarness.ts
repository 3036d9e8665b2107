/** Runs one command line of `holdfast` in this process with captured streams, against whatever listens at a socket. */
import * as NodeChildProcessSpawner from "@effect/platform-node/NodeChildProcessSpawner"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sink from "effect/Sink"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import * as Terminal from "effect/Terminal"
import { runCli } from "../../src/layers/cli.ts"

export interface Ran {
  readonly exit: number
  readonly stdout: string
  readonly stderr: string
}

export interface Terminals {
  readonly stdin?: string | Stream.Stream<Uint8Array>
  readonly stdinIsTerminal?: boolean
  readonly stderrIsTerminal?: boolean
}

const unused = Effect.die(new Error("no verb reads keys"))

/** The machine without its terminal: a run must not listen at the test runner's own streams. */
const services = Layer.mergeAll(
  NodeChildProcessSpawner.layer.pipe(Layer.provideMerge([NodeFileSystem.layer, NodePath.layer])),
  Layer.succeed(
    Terminal.Terminal,
    Terminal.make({
      columns: Effect.succeed(80),
      rows: Effect.succeed(24),
      size: unused,
      readInput: unused,
      readLine: unused,
      display: () => Effect.void
    })
  )
)

/** The streams of one run; `stderr` grows while it runs. */
export const captured = (terminals: Terminals = {}) => {
  const chunks = { stdout: [] as Array<Buffer>, stderr: [] as Array<Buffer> }
  const sink = (stream: "stdout" | "stderr") => () =>
    Sink.forEach((chunk: string | Uint8Array) =>
      Effect.sync(() => void chunks[stream].push(Buffer.from(chunk)))
    )
  const stdio = Stdio.layerTest({
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    stdin:
      typeof terminals.stdin === "string"
        ? Stream.make(Buffer.from(terminals.stdin))
        : (terminals.stdin ?? Stream.empty),
    stdinIsTerminal: Effect.succeed(terminals.stdinIsTerminal ?? false),
    stderrIsTerminal: Effect.succeed(terminals.stderrIsTerminal ?? false)
  })
  const text = (stream: "stdout" | "stderr") => Buffer.concat(chunks[stream]).toString("utf8")
  return { layer: Layer.merge(services, stdio), text }
}

/** Runs the command line and answers what it left. */
export const holdfast = (args: ReadonlyArray<string>, terminals: Terminals = {}): Effect.Effect<Ran> => {
  const { layer, text } = captured(terminals)
  return runCli(args).pipe(
    Effect.provide(layer),
    Effect.map((exit) => ({ exit, stdout: text("stdout"), stderr: text("stderr") }))
  )
}
