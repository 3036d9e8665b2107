/**
 * Handlers of the group `executions`: run one command and stream it, cancel one. What refuses the command before it
 * started is an HTTP status; what fails later is the stream's last line. Whoever hangs up ends the request's scope,
 * and with it the command.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { executionTimeoutMillisMax } from "../../domain/Bounds.ts"
import { GuestCommand } from "../../domain/guests/GuestSpec.ts"
import type { LeaseId } from "../../domain/Identity.ts"
import { cancelExecutionFor } from "../../domain/leases/cancellation.ts"
import { runCommand } from "../../domain/operations/runCommand.ts"
import { answering, resolveProject } from "./access.ts"
import { Api, CurrentCaller } from "./Api.ts"
import type { ExecutionRequest } from "./requestTerms.ts"
import { startedStream } from "./executionStream.ts"

const workspace = "/workspace"

/** The command that a request asks for; in the workspace and for the longest time unless it says otherwise. */
export const commandOf = (request: ExecutionRequest): GuestCommand =>
  new GuestCommand({
    argv: request.argv,
    environment: request.environment,
    workingDirectory: request.workingDirectory ?? workspace,
    standardInput: request.standardInput ?? null,
    timeoutMillis: request.timeoutMillis ?? executionTimeoutMillisMax
  })

const cancel = Effect.fnUntraced(function* (id: LeaseId) {
  yield* answering(cancelExecutionFor(yield* CurrentCaller, id))
})

export const layer = HttpApiBuilder.group(Api, "executions", (handlers) =>
  handlers.handleAll({
    run: Effect.fnUntraced(function* ({ params, payload }) {
      const caller = yield* CurrentCaller
      const project = yield* resolveProject(params.project)
      return yield* startedStream(runCommand(caller, project.id, commandOf(payload)))
    }),
    cancel: ({ params }) => cancel(params.id)
  })
)
