/**
 * How the demo talks to its daemon: requests under keys of its own, operations followed with a bar, commands run with
 * their output as it comes.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { RequestKey } from "../src/domain/Identity.ts"
import type { ApiClient } from "../src/infra/http/apiClient.ts"
import type { OperationView } from "../src/infra/http/Views.ts"
import { DemoFailed } from "./Daemon.ts"
import * as Screen from "./Screen.ts"

export interface Stage {
  readonly home: string
  readonly client: ApiClient["Service"]
  readonly settings: Readonly<Record<string, string>>
  /** Every sandbox that the demo has seen; none of them may leave anything behind. */
  readonly sandboxes: Set<string>
}

const key = (name: string) => RequestKey.make(`demo-${name}`)

/** Follows an operation to its end; fails unless it succeeds. */
export const follow = (stage: Stage, operation: OperationView) =>
  Effect.gen(function* () {
    let last = operation
    const events = yield* stage.client.operations.events({ params: { id: operation.id } })
    yield* Stream.runForEach(events as Stream.Stream<OperationView, { readonly message: string }>, (seen) =>
      Effect.sync(() => {
        last = seen
        Screen.bar(
          seen.state === "succeeded" ? 1 : Math.min(seen.fraction, 0.99),
          `${seen.action} ${seen.step ?? ""}`
        )
      })
    )
    if (last.state === "succeeded") return last
    Screen.clearBar()
    return yield* new DemoFailed({ what: last.error?.message ?? `operation ${last.id} is ${last.state}` })
  })

export const request = (stage: Stage, project: string, action: "provision" | "stop", name: string) =>
  stage.client.operations.request({
    params: { project },
    payload: {
      action,
      requestId: key(name),
      ...(action === "provision" ? { parameters: { memoryMebibytes: 512 } } : {})
    }
  })

/** Runs a command in the guest; the output goes to `show` as it comes. Answers exit code and output. */
export const execute = (stage: Stage, project: string, script: string, show: (text: string) => void) =>
  Effect.gen(function* () {
    const decoder = new TextDecoder()
    let text = ""
    let exitCode: number | null = null
    const lines = yield* stage.client.executions.run({
      params: { project },
      payload: { argv: ["/bin/sh", "-c", script], environment: {} }
    })
    yield* Stream.runForEach(lines, (line) =>
      Effect.sync(() => {
        if (line.type === "output") {
          const piece = decoder.decode(line.data, { stream: true })
          text += piece
          show(piece)
        }
        if (line.type === "exited") exitCode = line.exitCode
      })
    )
    if (exitCode === null) return yield* new DemoFailed({ what: "a command's stream broke off" })
    return { exitCode, text }
  })

/** Waits for the first durable step of the operation and answers its name. */
export const firstStep = (stage: Stage, operation: OperationView) =>
  Effect.gen(function* () {
    const events = yield* stage.client.operations.events({ params: { id: operation.id } })
    const begun = yield* Stream.runHead(
      Stream.filter(
        events as Stream.Stream<OperationView, { readonly message: string }>,
        ({ step }) => step !== null
      )
    )
    return begun._tag === "Some" ? (begun.value.step ?? "none") : "none"
  })
