/**
 * A process of its own that holds a state directory, for the tests of the lock: it says `held` or why not, starts a
 * child that outlives it when it is told to, and waits to be killed.
 */
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { holdStateDirectory } from "../../../src/infra/filesystem/OwnerLock.ts"

const [directory, withChild] = process.argv.slice(2)

const program = holdStateDirectory(directory!, `pid ${process.pid}, daemon test`).pipe(
  Effect.andThen(
    Effect.suspend(() => {
      const child =
        withChild === "child" ? spawn("sleep", ["600"], { detached: true, stdio: "ignore" }).pid : undefined
      process.stdout.write(`held ${child ?? 0}\n`)
      // Something has to keep the process alive until it is killed.
      setInterval(() => undefined, 60_000)
      return Effect.never
    })
  ),
  Effect.scoped,
  Effect.catch((refusal) =>
    Effect.sync(() => {
      process.stdout.write(`${refusal._tag} ${refusal.message}\n`)
      process.exitCode = 1
    })
  )
)

Effect.runFork(program)
