/** What a command in a sandbox said and how it ended, from the lines of either API. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { ExecutionLine } from "../../src/infra/http/Views.ts"

export const outcomeOf = <E, R>(lines: Stream.Stream<ExecutionLine, E, R>) =>
  Effect.gen(function* () {
    let text = ""
    let exitCode = -1
    const decoder = new TextDecoder()
    yield* Stream.runForEach(lines, (line) =>
      Effect.sync(() => {
        if (line.type === "output") text += decoder.decode(line.data)
        if (line.type === "exited") exitCode = line.exitCode
      })
    )
    return { exitCode, text: text.trim() }
  })
