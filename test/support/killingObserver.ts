/** An observer of steps by which a process kills itself with SIGKILL at one boundary, as a machine would. */
import * as Effect from "effect/Effect"
import type { StepObserverShape } from "../../src/domain/StepObserver.ts"

/** Where a process kills itself: at the given occurrence of the boundary, counted over the process's life. */
export interface KillPoint {
  readonly boundary: "before" | "after"
  readonly program: string
  readonly step: string
  readonly occurrence: number
}

/** Kills at that point; without one it only lets pass. `pass` is told of every boundary that was reached. */
export const killingObserver = (
  point: KillPoint | undefined,
  pass: (boundary: KillPoint["boundary"], program: string, step: string) => void = () => undefined
): StepObserverShape => {
  let seen = 0
  const look = (boundary: KillPoint["boundary"]) => (program: string, step: string) =>
    Effect.suspend(() => {
      pass(boundary, program, step)
      if (point?.boundary !== boundary || point.program !== program || point.step !== step) return Effect.void
      seen += 1
      if (seen !== point.occurrence) return Effect.void
      process.kill(process.pid, "SIGKILL")
      return Effect.never
    })
  return { before: look("before"), after: look("after") }
}
