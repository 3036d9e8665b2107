/**
 * The worker's side of the protocol in one file: lines of JSON-RPC 2.0 on standard input and output. Copy it, or write
 * your own in any language; docs/provider-plugins.md has the whole protocol.
 *
 *     serve({ methods: { environmentAcquireLease: async (params, call) => ({ providerLeaseId: "…" }) } })
 *
 * `call` has `log(stream, text)` for the output of a command while it runs, `signal`, which aborts when the daemon no
 * longer waits, and `traceparent`.
 */
import { createInterface } from "node:readline"

export class RpcError extends Error {
  constructor(code, message, data) {
    super(message)
    this.code = code
    this.data = data
  }
}

/** A fault of the provider's own API, as the daemon understands it. */
export const fault = (status, message, providerLeaseId) =>
  new RpcError(-32000, message, {
    schema: "holdfast/provider-fault/v1",
    status,
    ...(providerLeaseId === undefined ? {} : { providerLeaseId })
  })

const send = (message) => void process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)

const errorOf = (error) =>
  error instanceof RpcError
    ? { code: error.code, message: error.message, ...(error.data === undefined ? {} : { data: error.data }) }
    : { code: -32603, message: "the worker failed" }

export const serve = ({ methods, onEnd = () => undefined, answer = send }) => {
  const running = new Map()
  const own = {
    initialize: () => ({ protocolVersion: 1, supportedMethods: Object.keys(methods) }),
    ping: () => ({})
  }

  const handle = async ({ id, meta, method, params }) => {
    const carryOut = own[method] ?? methods[method]
    if (carryOut === undefined) return answer({ id, error: { code: -32601, message: `no method ${method}` } })
    if (typeof params !== "object" || params === null)
      return answer({ id, error: { code: -32602, message: "params are an object" } })
    const controller = new AbortController()
    running.set(id, controller)
    try {
      const log = (stream, text) => send({ method: "log", params: { id, stream, text } })
      const call = { log, signal: controller.signal, traceparent: meta?.traceparent }
      answer({ id, result: (await carryOut(params, call)) ?? null }, method)
    } catch (error) {
      answer({ id, error: errorOf(error) }, method)
    } finally {
      running.delete(id)
    }
  }

  const end = async () => {
    for (const controller of running.values()) controller.abort()
    await onEnd()
    process.exit(0)
  }

  const lines = createInterface({ input: process.stdin })
  lines.on("line", (line) => {
    const message = JSON.parse(line)
    if (message.method === "cancel") running.get(message.params.id)?.abort()
    else if (message.method === "shutdown") void end()
    else void handle(message)
  })
  // The daemon is gone: nobody asks any more.
  lines.on("close", () => void end())
}
