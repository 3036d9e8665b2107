/** Acts at one of the boundaries that programs of steps tell of, whichever program it is. */
import * as Effect from "effect/Effect"

/** An observer that counts the boundaries of all programs, and acts at one of them. */
export const actingAt = (at: number, act: Effect.Effect<void>) => {
  const reached: Array<string> = []
  const boundary = (side: string) => (program: string, step: string) =>
    Effect.suspend(() => {
      reached.push(`${side} ${step} of ${program}`)
      return reached.length === at ? act : Effect.void
    })
  return { reached, observer: { before: boundary("before"), after: boundary("after") } }
}

/** The fiber ends at that boundary, as by a SIGKILL. */
export const cutAt = (at: number) => actingAt(at, Effect.interrupt)
