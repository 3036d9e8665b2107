/**
 * The verbs below `node`: each asks the daemon once and shows what it answered. A creation tells its key before it is
 * sent, so that a caller whose connection breaks can ask again for the same sandbox.
 */
import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { GuestSignal } from "../../domain/guests/GuestSpec.ts"
import { RequestKey, SandboxId } from "../../domain/Identity.ts"
import type { SandboxCreation } from "../../infra/http/node/NodeApi.ts"
import type { SandboxSummary, SandboxView } from "../../infra/http/node/NodeViews.ts"
import { connectedToNode, type NodeConnection, type Target } from "./connection.ts"
import { type CommandOptions, requestOf, showExecution } from "./execute.ts"
import { failed, usage } from "./Failure.ts"
import {
  deletionLines,
  inspectionLines,
  readinessLine,
  sandboxLine,
  sandboxTable,
  whyLines
} from "./nodeText.ts"
import { given } from "./given.ts"
import { Output } from "./Output.ts"

const decodeSandbox = Schema.decodeUnknownEffect(SandboxId)
const decodeKey = Schema.decodeUnknownEffect(RequestKey)

/** The id as it was given; what cannot be one is a wrong command line. */
const sandboxOf = (given: string) =>
  decodeSandbox(given).pipe(Effect.mapError(() => usage(`"${given}" is no sandbox: ids look like sb-UUID`)))

/** Asks about one sandbox. */
const asking = <A, E, R>(
  target: Target,
  given: string,
  ask: (connection: NodeConnection, params: { readonly sandbox: SandboxId }) => Effect.Effect<A, E, R>
) =>
  Effect.flatMap(sandboxOf(given), (sandbox) =>
    connectedToNode(target, (connection) => ask(connection, { sandbox }))
  )

export interface CreateOptions {
  readonly argv: ReadonlyArray<string>
  readonly cpu: string
  readonly memory: string
  readonly processesMax: number | undefined
  readonly image: string | undefined
  readonly lifeSeconds: number | undefined
  readonly environment: Readonly<Record<string, string>>
  /** Content of an environment file. */
  readonly environmentText: string | undefined
  readonly metadata: Readonly<Record<string, string>>
  readonly requestId: string | undefined
}

/** NAME=VALUE, one a line; empty lines and those that begin with # are passed over. A bad line is told by its number. */
const readPairs = (text: string) =>
  Effect.gen(function* () {
    const pairs: Record<string, string> = {}
    for (const [index, line] of text.split("\n").entries()) {
      if (line.trim() === "" || line.startsWith("#")) continue
      const at = line.indexOf("=")
      if (at < 1) return yield* usage(`line ${index + 1} of the environment file is not NAME=VALUE`)
      pairs[line.slice(0, at)] = line.slice(at + 1)
    }
    return pairs
  })

/** Creates a sandbox and prints its id. */
export const createSandbox = Effect.fn("cli.createSandbox")(function* (
  target: Target,
  options: CreateOptions
) {
  const output = yield* Output
  const requestId = yield* decodeKey(options.requestId ?? randomUUID()).pipe(
    Effect.mapError(() => usage("--request-id has 1 to 160 letters, digits and the signs _ . : -"))
  )
  const payload: SandboxCreation = {
    requestId,
    resources: { cpu: options.cpu, memory: options.memory },
    argv: options.argv,
    environment: { ...options.environment, ...(yield* readPairs(options.environmentText ?? "")) },
    metadata: options.metadata,
    ...given("image", options.image),
    ...given("processesMax", options.processesMax),
    ...given("lifeSeconds", options.lifeSeconds)
  }
  yield* output.tell(`request ${requestId}`)
  yield* connectedToNode(target, ({ call, client }) =>
    Effect.flatMap(call(client.sandboxes.create({ payload })), (made) => output.result(made, [made.sandbox]))
  )
})

/** All pages, in the order of ids. */
const allSandboxes = Effect.fnUntraced(function* ({ call, client }: NodeConnection) {
  const all: Array<SandboxSummary> = []
  for (;;) {
    const after = all.at(-1)?.sandbox
    const page = yield* call(client.sandboxes.list({ query: given("after", after) }))
    if (page.length === 0) return all
    all.push(...page)
  }
})

/** Lists the sandboxes of the node. */
export const listSandboxes = Effect.fn("cli.listSandboxes")(function* (target: Target) {
  const output = yield* Output
  const all = yield* connectedToNode(target, allSandboxes)
  yield* output.result(all, sandboxTable(all, yield* Clock.currentTimeMillis))
})

/** Shows one sandbox. */
export const inspectSandbox = Effect.fn("cli.inspectSandbox")(function* (target: Target, sandbox: string) {
  const output = yield* Output
  const seen = yield* asking(target, sandbox, ({ call, client }, params) =>
    call(client.sandboxes.inspect({ params }))
  )
  yield* output.result(seen, inspectionLines(seen, yield* Clock.currentTimeMillis))
})

/** Runs a command in the sandbox and answers its exit code. */
export const executeIn = Effect.fn("cli.executeIn")(function* (
  target: Target,
  sandbox: string,
  options: CommandOptions
) {
  const payload = yield* requestOf(options)
  return yield* asking(target, sandbox, ({ call, client, stream }, params) =>
    Effect.flatMap(call(client.sandboxes.exec({ params, payload })), (lines) => showExecution(stream(lines)))
  )
})

/** Prints the socket of a port. */
export const showEndpoint = Effect.fn("cli.showEndpoint")(function* (
  target: Target,
  sandbox: string,
  port: number
) {
  const output = yield* Output
  const endpoint = yield* asking(target, sandbox, ({ call, client }, params) =>
    call(client.sandboxes.endpoint({ params, payload: { port } }))
  )
  yield* output.result(endpoint, [endpoint.path])
})

const showChanged = Effect.fnUntraced(function* (changed: SandboxView) {
  const output = yield* Output
  yield* output.result(changed, [sandboxLine(changed, yield* Clock.currentTimeMillis)])
})

export const pauseSandbox = Effect.fn("cli.pauseSandbox")((target: Target, sandbox: string) =>
  Effect.flatMap(
    asking(target, sandbox, ({ call, client }, params) => call(client.sandboxes.pause({ params }))),
    showChanged
  )
)

export const resumeSandbox = Effect.fn("cli.resumeSandbox")((target: Target, sandbox: string) =>
  Effect.flatMap(
    asking(target, sandbox, ({ call, client }, params) => call(client.sandboxes.resume({ params }))),
    showChanged
  )
)

export const signalSandbox = Effect.fn("cli.signalSandbox")(
  (target: Target, sandbox: string, signal: GuestSignal) =>
    Effect.flatMap(
      asking(target, sandbox, ({ call, client }, params) =>
        call(client.sandboxes.signal({ params, payload: { signal } }))
      ),
      showChanged
    )
)

/** Ends the guest; it has the grace, or the daemon's own, to end by itself. */
export const stopSandbox = Effect.fn("cli.stopSandbox")(
  (target: Target, sandbox: string, graceSeconds: number | undefined) =>
    Effect.flatMap(
      asking(target, sandbox, ({ call, client }, params) =>
        call(
          client.sandboxes.stop({
            params,
            payload: given("graceMillis", graceSeconds === undefined ? undefined : graceSeconds * 1_000)
          })
        )
      ),
      showChanged
    )
)

export const renewSandbox = Effect.fn("cli.renewSandbox")(
  (target: Target, sandbox: string, lifeSeconds: number) =>
    Effect.flatMap(
      asking(target, sandbox, ({ call, client }, params) =>
        call(client.sandboxes.renew({ params, payload: { lifeSeconds } }))
      ),
      showChanged
    )
)

/** Deletes and prints the proof. A deletion that is intended and not proved yet is shown, and is no success. */
export const deleteSandbox = Effect.fn("cli.deleteSandbox")(function* (target: Target, sandbox: string) {
  const output = yield* Output
  const deletion = yield* asking(target, sandbox, ({ call, client }, params) =>
    call(client.sandboxes.delete({ params }))
  )
  yield* output.result(deletion, deletionLines(deletion))
  if (deletion.state === "deleted") return
  return yield* failed(
    "deletion_pending",
    `${sandbox} is not proved to be gone (${deletion.inTheWay}): the node goes on; ask again`
  )
})

/** Shows the chain from the request to the proof. */
export const showWhy = Effect.fn("cli.showWhy")(function* (target: Target, sandbox: string) {
  const output = yield* Output
  const chain = yield* asking(target, sandbox, ({ call, client }, params) =>
    call(client.sandboxes.why({ params }))
  )
  yield* output.result(chain, whyLines(chain))
})

/** Tells whether the node is ready; anything else is a failure with the reason. */
export const showReadiness = Effect.fn("cli.showReadiness")(function* (target: Target) {
  const output = yield* Output
  const readiness = yield* connectedToNode(target, ({ call, client }) => call(client.node.readiness()))
  yield* output.result(readiness, [readinessLine(readiness)])
  if (readiness.state !== "ready") return yield* failed(readiness.state, readiness.why ?? "it is not ready")
})
