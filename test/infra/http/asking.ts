/** A plain HTTP client on a UNIX socket: the target goes out as it is given, so that a test decides every byte of it. */
import * as Http from "node:http"
import * as Effect from "effect/Effect"

export interface Answer {
  readonly status: number
  readonly body: string
}

/** Asks once; a body that is no text is sent as JSON. */
export const ask = (
  socketPath: string,
  method: string,
  path: string,
  body?: unknown
): Effect.Effect<Answer> =>
  Effect.callback<Answer>((resume) => {
    const request = Http.request(
      { socketPath, method, path, headers: { "content-type": "application/json" } },
      (response) => {
        const chunks: Array<Buffer> = []
        response.on("data", (chunk: Buffer) => chunks.push(chunk))
        response.on("end", () =>
          resume(
            Effect.succeed({
              status: response.statusCode ?? 0,
              body: Buffer.concat(chunks).toString("utf8")
            })
          )
        )
      }
    )
    request.on("error", (error) => resume(Effect.die(error)))
    request.end(body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body))
  })

/** The stable code of an error body. */
export const codeOf = ({ body }: Answer): string => (JSON.parse(body) as { code: string }).code
