/** The verbs below `secret`. A value comes from standard input and never from an argument, which others could read. */
import * as Effect from "effect/Effect"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { secretBytesMax } from "../../domain/Bounds.ts"
import { table } from "../../infra/cli/text.ts"
import type { SecretView } from "../../infra/http/environmentViews.ts"
import { connected, type Target } from "./connection.ts"
import { outputClosed, usage } from "./Failure.ts"
import { Output } from "./Output.ts"

/**
 * The value that a text on standard input is: without the one line end that `echo` adds to a line. One of several lines,
 * such as a key, is taken as it is: its last line end is part of it. Pure.
 */
export const secretValueOf = (text: string): string => {
  const line = text.replace(/\r?\n$/, "")
  return line.includes("\n") ? text : line
}

const readValue = Effect.gen(function* () {
  const stdio = yield* Stdio.Stdio
  const output = yield* Output
  if (yield* stdio.stdinIsTerminal) yield* output.tell("the value, then Ctrl-D:")
  let text = ""
  yield* stdio.stdin.pipe(
    Stream.decodeText(),
    Stream.mapError(outputClosed),
    Stream.runForEach((part) => {
      text += part
      return text.length <= secretBytesMax + 2
        ? Effect.void
        : Effect.fail(usage(`a secret's value has at most ${secretBytesMax} bytes`))
    })
  )
  return secretValueOf(text)
})

const told = (verb: string, { id, name, version }: SecretView): ReadonlyArray<string> => [
  `${verb} secret ${name}, version ${version} (${id})`
]

/** Makes the secret of that name, or gives it another value. */
export const setSecret = Effect.fn("cli.setSecret")(function* (target: Target, name: string) {
  const output = yield* Output
  const value = yield* readValue
  const secret = yield* connected(target, ({ call, client }) =>
    call(client.secrets.set({ payload: { name, value } }))
  )
  yield* output.result(secret, told("set", secret))
})

/** Another value for a secret that is there. */
export const rotateSecret = Effect.fn("cli.rotateSecret")(function* (target: Target, reference: string) {
  const output = yield* Output
  const value = yield* readValue
  const secret = yield* connected(target, ({ call, client }) =>
    call(client.secrets.rotate({ payload: { secret: reference, value } }))
  )
  yield* output.result(secret, told("rotated", secret))
})

/** Lists the tenant's secrets; their values are shown nowhere. */
export const listSecrets = Effect.fn("cli.listSecrets")(function* (target: Target) {
  const output = yield* Output
  const secrets = yield* connected(target, ({ call, client }) => call(client.secrets.list()))
  const rows = secrets.map(({ id, name, rotatedAtMillis, version }) => [
    name,
    String(version),
    new Date(rotatedAtMillis).toISOString(),
    id
  ])
  yield* output.result(secrets, table([["SECRET", "VERSION", "ROTATED", "ID"], ...rows]))
})

/** Allows an environment the use of a secret at one place of its config. */
export const bindSecret = Effect.fn("cli.bindSecret")(function* (
  target: Target,
  payload: { readonly secret: string; readonly environment: string; readonly configPath: string }
) {
  const output = yield* Output
  const secret = yield* connected(target, ({ call, client }) => call(client.secrets.bind({ payload })))
  yield* output.result(secret, [
    `${payload.environment} may use secret ${secret.name} at ${payload.configPath}`
  ])
})
