/**
 * A small shell beside the daemon that starts programs for it. A fork copies the page tables of whoever forks, which
 * holds a daemon of some hundred megabytes up for ten milliseconds and more; the shell forks in one. It reads orders
 * as lines of script, ends with the daemon, since its orders do, and is started again when it has died.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import * as Files from "node:fs"
import * as Bounds from "../../domain/Bounds.ts"
import { readIfThere } from "./kernel.ts"
import { programEnvironment } from "./programs.ts"

/** A program that runs on by itself, and where its descriptors lead. */
export interface StartedProgram {
  /** Lines of script that are done first, by the process that then becomes the program. */
  readonly first: string
  readonly argv: ReadonlyArray<string>
  /** One variable beside the programs' own environment. */
  readonly mark: readonly [name: string, value: string]
  /** Files that are there already, written over from their beginning. */
  readonly output: string
  readonly written: ReadonlyArray<readonly [descriptor: number, path: string]>
  readonly read: ReadonlyArray<readonly [descriptor: number, path: string]>
  /** A named pipe whose writer the daemon is. Without a writer its end is read at once. Null: none. */
  readonly pipe: readonly [descriptor: number, path: string] | null
}

export interface LaunchShell {
  /** Runs a program to its end, without input and output; its status. Undefined: the shell died. */
  readonly run: (argv: ReadonlyArray<string>) => Effect.Effect<number | undefined>
  /** Starts a program in a session of its own; its pid. Undefined: the shell died, and whether it started is not known. */
  readonly start: (program: StartedProgram) => Effect.Effect<number | undefined>
  /** Has a line of script done in the background, without an answer. A shell that died does not do it. */
  readonly begin: (line: string) => void
}

const closeOnExec = 0o2000000
const ownDescriptors = 3

/**
 * Descriptors that this process was given by whoever started it and would hand on to its children. Node opens its own
 * so that they are closed there; a stranger's pipe must not reach a guest.
 */
const findStrayDescriptors = (): ReadonlyArray<number> =>
  Files.readdirSync("/proc/self/fd")
    .map(Number)
    .filter((descriptor) => {
      if (descriptor < ownDescriptors) return false
      const flags = /^flags:\s+(\d+)$/m.exec(readIfThere(`/proc/self/fdinfo/${descriptor}`) ?? "")?.[1]
      return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0
    })

/** The shell finds nothing behind a stray descriptor, and so nobody that it starts does. */
const strayStdio = (strays: ReadonlyArray<number>, nothing: number): ReadonlyArray<"ignore" | number> =>
  Array.from({ length: Math.max(0, ...strays.map((stray) => stray + 1 - ownDescriptors)) }, (_, at) =>
    strays.includes(at + ownDescriptors) ? nothing : "ignore"
  )

const spawnShell = (strays: ReadonlyArray<number>): ChildProcess => {
  const nothing = Files.openSync("/dev/null", "r")
  try {
    return spawn("/bin/sh", [], {
      // Signals of the daemon's terminal are not meant for what it has started.
      detached: true,
      cwd: "/",
      stdio: ["pipe", "pipe", "ignore", ...strayStdio(strays, nothing)],
      env: programEnvironment
    })
  } finally {
    Files.closeSync(nothing)
  }
}

/** One word of script. */
export const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`

const words = (argv: ReadonlyArray<string>): string => argv.map(quote).join(" ")

/** One line of script for an order. Its answer is one line too: the order's number, and a number. */
type Act = (order: number) => string

const runAct =
  (argv: ReadonlyArray<string>): Act =>
  (order) =>
    `(${words(argv)} </dev/null >/dev/null 2>&1; echo ${order} $?) &`

/** The pipe is opened for both ways first: an open for reading alone would wait for a daemon that may have died. */
const startAct = ({ argv, first, mark, output, pipe, read, written }: StartedProgram): Act => {
  const redirections = [
    `</dev/null >${quote(output)} 2>&1`,
    ...written.map(([to, file]) => `${to}>${quote(file)}`),
    ...read.map(([from, file]) => `${from}<${quote(file)}`),
    ...(pipe === null ? [] : [`9<>${quote(pipe[1])} ${pipe[0]}<${quote(pipe[1])} 9<&-`])
  ].join(" ")
  return (order) =>
    `(export ${mark[0]}=${quote(mark[1])}; ${first} exec setsid ${words(argv)}) ${redirections} & echo ${order} $!`
}

type Answered = (answer: number | undefined) => void

interface LivingShell {
  readonly child: ChildProcess
  readonly waiting: Map<number, Answered>
}

const listen = ({ child, waiting }: LivingShell): void => {
  let rest = ""
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) {
      const [order, answer] = line.split(" ").map(Number)
      if (order === undefined) continue
      waiting.get(order)?.(answer)
      waiting.delete(order)
    }
  })
}

/** The shell for the time of the scope, started by the first order. One that leaves an order unanswered is ended. */
export const makeLaunchShell = (
  orderMillisMax: number = Bounds.launchShellMillisMax
): Effect.Effect<LaunchShell, never, Scope.Scope> =>
  Effect.gen(function* () {
    const strays = yield* Effect.sync(findStrayDescriptors)
    let living: LivingShell | undefined
    let orders = 0
    const open = (): LivingShell => {
      const opened: LivingShell = { child: spawnShell(strays), waiting: new Map() }
      const { child, waiting } = opened
      const lost = () => {
        if (living === opened) living = undefined
        for (const answered of waiting.values()) answered(undefined)
        waiting.clear()
      }
      child.once("error", lost)
      child.once("close", lost)
      // A shell that has died does not read: its end tells the story.
      child.stdin?.on("error", () => undefined)
      listen(opened)
      return opened
    }
    const ask = (act: Act): Effect.Effect<number | undefined> =>
      Effect.callback<number | undefined>((resume) => {
        living ??= open()
        const order = (orders += 1)
        const { child, waiting } = living
        const deadline = setTimeout(() => child.kill("SIGKILL"), orderMillisMax)
        waiting.set(order, (answer) => {
          clearTimeout(deadline)
          resume(Effect.succeed(answer))
        })
        // Collects who has ended, then does the order.
        child.stdin?.write(`jobs >/dev/null 2>&1; ${act(order)}\n`)
      })
    yield* Effect.addFinalizer(() => Effect.sync(() => living?.child.stdin?.end()))
    return {
      begin: (line) => {
        living ??= open()
        living.child.stdin?.write(`(${line}) </dev/null >/dev/null 2>&1 &\n`)
      },
      run: (argv) => ask(runAct(argv)),
      start: (program) => ask(startAct(program))
    }
  })
