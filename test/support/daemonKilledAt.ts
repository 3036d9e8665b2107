/**
 * The daemon's own entry point with one thing added: at the boundary that the environment names, the process kills
 * itself with SIGKILL. Started by daemonProcess.ts.
 */
import * as Effect from "effect/Effect"
import { StepObserver } from "../../src/domain/StepObserver.ts"
import { main } from "../../src/layers/cli.ts"
import type { KillPoint } from "./daemonProcess.ts"

const named = process.env["HOLDFAST_TEST_KILL_AT"]
const point: KillPoint | undefined = named === undefined ? undefined : JSON.parse(named)
let seen = 0

const look = (boundary: KillPoint["boundary"]) => (program: string, step: string) =>
  Effect.suspend(() => {
    if (
      point === undefined ||
      point.boundary !== boundary ||
      point.program !== program ||
      point.step !== step
    ) {
      return Effect.void
    }
    seen += 1
    if (seen !== point.occurrence) return Effect.void
    process.kill(process.pid, "SIGKILL")
    return Effect.never
  })

main((program) =>
  Effect.provideService(program, StepObserver, { before: look("before"), after: look("after") })
)
