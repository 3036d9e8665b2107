/**
 * How a verb of the CLI fails: a stable code, a sentence, and the exit code. Whatever the client or the terminal
 * answers is translated here, once; verbs never look at status codes.
 */
import * as Data from "effect/Data"
import type * as HttpClientError from "effect/http/HttpClientError"
import type * as Schema from "effect/Schema"
import { type ApiError, isApiError, statusOfError } from "../../infra/http/ApiErrors.ts"
import { type ExitCode, exitCodeOfStatus, exitCodes } from "./exitCodes.ts"

export class CliFailure extends Data.TaggedError("CliFailure")<{
  readonly code: string
  readonly message: string
  readonly exit: ExitCode
}> {}

/** A failure of ours that has no other exit code. */
export const failed = (code: string, message: string): CliFailure =>
  new CliFailure({ code, message, exit: exitCodes.failed })

export const usage = (message: string): CliFailure =>
  new CliFailure({ code: "usage", message, exit: exitCodes.usage })

const ofApiError = (error: ApiError): CliFailure =>
  new CliFailure({
    code: error.code,
    message: error.message,
    exit: exitCodeOfStatus(statusOfError(error))
  })

const systemCodeOf = (error: HttpClientError.HttpClientError): string | undefined => {
  const cause: unknown = error.reason.cause
  return typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : undefined
}

const unreachable = (socketPath: string, why: string): CliFailure =>
  new CliFailure({
    code: "daemon_unreachable",
    message: `no daemon answers at ${socketPath}: ${why}`,
    exit: exitCodes.unreachable
  })

const ofTransport = (error: HttpClientError.HttpClientError, socketPath: string): CliFailure => {
  if (error.reason._tag === "StatusCodeError") {
    return failed(
      "unexpected_answer",
      `the daemon at ${socketPath} gave an answer that this holdfast does not know`
    )
  }
  switch (systemCodeOf(error)) {
    case "ENOENT":
    case "ECONNREFUSED":
      return unreachable(socketPath, "start one with `holdfast up`, or name its --home")
    case "EACCES":
    case "EPERM":
      return unreachable(socketPath, "the socket belongs to another user: run holdfast as the daemon's user")
    default:
      return unreachable(socketPath, "the connection broke; ask again with `holdfast status`")
  }
}

export type ClientError = ApiError | HttpClientError.HttpClientError | Schema.SchemaError

/** Gives an error of the client its code, its sentence and its exit code. */
export const ofClientError =
  (socketPath: string) =>
  (error: ClientError): CliFailure => {
    if (isApiError(error)) return ofApiError(error)
    if (error._tag === "HttpClientError") return ofTransport(error, socketPath)
    return failed(
      "unexpected_answer",
      `the daemon at ${socketPath} gave an answer that this holdfast cannot read`
    )
  }

/** Nobody reads the output any more; there is nobody to tell either. */
export const outputClosed = (): CliFailure => failed("output_closed", "")
