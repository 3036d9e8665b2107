/**
 * The node's API with its real handlers on a real socket, over a real registry on disk and scripted guests: a node in
 * this process, whose guests and disk a test steers.
 */
import * as Http from "node:http"
import * as Path from "node:path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import { RequestKey } from "../../../../src/domain/Identity.ts"
import { SweepReports } from "../../../../src/domain/SweepReports.ts"
import type { SandboxCreation } from "../../../../src/infra/http/node/NodeApi.ts"
import { layer as layerClient, NodeClient } from "../../../../src/infra/http/node/nodeClient.ts"
import { layerNodeRoutes } from "../../../../src/infra/http/node/nodeRoutes.ts"
import { NodeTerms } from "../../../../src/infra/http/node/NodeTerms.ts"
import { layer as layerSocket } from "../../../../src/infra/http/socketServer.ts"
import { type openNode, freshNode } from "../../../domain/registry/guestFixture.ts"
import type { TestNode } from "../../../domain/registry/guestFixture.ts"
import { temporaryDirectory } from "../scriptedServer.ts"

export const lifeSecondsMax = 86_400

export interface ServedNode {
  readonly node: TestNode
  readonly client: NodeClient["Service"]
  readonly socketPath: string
  readonly settle: Effect.Effect<void>
  /** Notes what a sweep of the node came to. */
  readonly note: SweepReports["Service"]["note"]
}

/** Serves a node of the test's in the scope; it has not settled until it is told so. */
export const serveNode = Effect.fnUntraced(function* (node: TestNode) {
  const settled = yield* Ref.make(false)
  const socketPath = Path.join(yield* temporaryDirectory, "n.sock")
  const terms = Layer.succeed(NodeTerms, {
    version: "0.1.0",
    actor: "uid:7",
    lifeSecondsMax,
    isSettled: Ref.get(settled)
  })
  const reports = yield* Layer.build(SweepReports.layer)
  const ports = Layer.succeedContext(Context.merge(node.context, reports))
  const routes = layerNodeRoutes.pipe(Layer.provide(terms), Layer.provide(ports))
  yield* Layer.build(layerSocket(routes, { path: socketPath, stopGraceMillis: 200 }))
  const client = Context.get(yield* Layer.build(layerClient(socketPath)), NodeClient)
  const { note } = Context.get(reports, SweepReports)
  return { node, client, socketPath, settle: Ref.set(settled, true), note } satisfies ServedNode
})

/** Serves a fresh node. */
export const serveFresh = (options: Parameters<typeof openNode>[2] = {}) =>
  Effect.flatMap(freshNode(options), serveNode)

/** A small request under a key. */
export const creation = (key: string, fields: Partial<SandboxCreation> = {}): SandboxCreation => ({
  requestId: RequestKey.make(key),
  resources: { cpu: "0.1", memory: "128Mi" },
  ...fields
})

export interface Answered {
  readonly status: number
  readonly text: string
  readonly body: {
    readonly code?: string
    readonly message?: string
    readonly details?: Record<string, unknown>
  }
}

const bodyOf = (text: string): Answered["body"] => {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

/** One request as somebody without our client would send it. */
export const ask = (
  socketPath: string,
  method: string,
  path: string,
  body?: unknown
): Effect.Effect<Answered> =>
  Effect.callback((resume) => {
    const headers = body === undefined ? {} : { "content-type": "application/json" }
    const request = Http.request({ socketPath, method, path, headers }, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8")
        resume(Effect.succeed({ status: response.statusCode ?? 0, text, body: bodyOf(text) }))
      })
    })
    request.on("error", (error) => resume(Effect.die(error)))
    request.end(body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body))
  })
