/** The wire: strictness, error bodies and bounds of the API, over a real socket with a plain HTTP client. */
import * as Http from "node:http"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { requestBodyBytesMax } from "../../../src/domain/Bounds.ts"
import { operation, serveScript } from "./scriptedServer.ts"

interface Answer {
  readonly status: number
  readonly body: string
  readonly type: string
}

const ask = (
  socketPath: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {}
): Effect.Effect<Answer> =>
  Effect.callback<Answer>((resume) => {
    const request = Http.request(
      { socketPath, method, path, headers: { "content-type": "application/json", ...headers } },
      (response) => {
        const chunks: Array<Buffer> = []
        response.on("data", (chunk: Buffer) => chunks.push(chunk))
        response.on("end", () =>
          resume(
            Effect.succeed({
              status: response.statusCode ?? 0,
              body: Buffer.concat(chunks).toString("utf8"),
              type: response.headers["content-type"] ?? ""
            })
          )
        )
      }
    )
    request.on("error", (error) => resume(Effect.die(error)))
    request.end(body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body))
  })

const parsed = (answer: Answer): { code: string; message: string; details: Record<string, unknown> } =>
  JSON.parse(answer.body)

describe("Api", () => {
  it.live("SP-HTTP-03 an unknown field of a request is a 400 that names the field", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const body = { action: "start", requestId: "r-1", initiator: "system" }
      const answer = yield* ask(socket, "POST", "/projects/web/operations", body)
      assert.strictEqual(answer.status, 400)
      assert.strictEqual(parsed(answer).code, "invalid_request")
      assert.deepStrictEqual(parsed(answer).details, { fields: ["initiator"] })
      assert.include(parsed(answer).message, "initiator: is not a field of this request")
      const nested = { ...body, initiator: undefined, parameters: { cpuMilis: 5 } }
      const deep = yield* ask(socket, "POST", "/projects/web/operations", nested)
      assert.deepStrictEqual(parsed(deep).details, { fields: ["parameters.cpuMilis"] })
    })
  )

  it.live("a refused value is named by its field and never repeated", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const bodies = [
        { argv: ["x"], environment: { TOKEN: "canary\0" } },
        { argv: ["x"], environment: { TOKEN: ["canary"] } },
        { argv: ["x"], environment: {}, workingDirectory: "canary" },
        { argv: ["x"], environment: {}, standardInput: "canary!" },
        { argv: [], environment: {} },
        { argv: ["x"], environment: {}, timeoutMillis: 0 }
      ]
      for (const body of bodies) {
        const answer = yield* ask(socket, "POST", "/projects/web/executions", body)
        assert.strictEqual(answer.status, 400, JSON.stringify(body))
        assert.notInclude(answer.body, "canary")
        assert.lengthOf(parsed(answer).details["fields"] as Array<string>, 1)
      }
      const malformed = yield* ask(socket, "POST", "/projects", '{"name": "canary')
      assert.deepStrictEqual([malformed.status, parsed(malformed).code], [400, "invalid_request"])
      assert.notInclude(malformed.body, "canary")
    })
  )

  it.live("a path that names nothing is a 404 with an error body", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      for (const path of [
        "/nothing",
        "/projects/WEB",
        "/projects/%31%",
        "/projects/-1",
        "/projects/1e3!",
        "/operations/not-a-uuid",
        "/projects/other"
      ]) {
        const answer = yield* ask(socket, "GET", path)
        assert.strictEqual(answer.status, 404, path)
        assert.match(parsed(answer).code, /^(project_)?not_found$/)
      }
    })
  )

  it.live("a body above the bound is refused, with and without an announced length", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      const body = JSON.stringify({ name: "x".repeat(requestBodyBytesMax) })
      for (const headers of [{ "content-length": String(body.length) }, { "transfer-encoding": "chunked" }]) {
        const answer = yield* ask(socket, "POST", "/projects", body, headers)
        assert.deepStrictEqual([answer.status, parsed(answer).code], [413, "body_too_large"])
      }
    })
  )

  it.live("a defect in the daemon is a 500 that tells nothing of it", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript({ requestOperation: () => Effect.die(new Error("canary")) })
      const answer = yield* ask(socket, "POST", "/projects/web/operations", {
        action: "stop",
        requestId: "r"
      })
      assert.deepStrictEqual([answer.status, parsed(answer).code], [500, "internal"])
      assert.notInclude(answer.body, "canary")
    })
  )

  it.live("an answer that breaks its own schema is a 500 and not a half answer", () =>
    Effect.gen(function* () {
      const broken = operation({ fraction: Number.NaN })
      const socket = yield* serveScript({ requestOperation: () => Effect.succeed(broken) })
      const answer = yield* ask(socket, "POST", "/projects/web/operations", {
        action: "stop",
        requestId: "r"
      })
      assert.deepStrictEqual([answer.status, parsed(answer).code], [500, "internal"])
    })
  )

  it.live(
    "SP-HTTP-05 admitted work is answered with 202, created things with 201, streams by their type",
    () =>
      Effect.gen(function* () {
        const socket = yield* serveScript()
        const admitted = yield* ask(socket, "POST", "/projects/web/operations", {
          action: "stop",
          requestId: "r"
        })
        assert.strictEqual(admitted.status, 202)
        const created = yield* ask(socket, "POST", "/projects", { name: "api" })
        assert.strictEqual(created.status, 201)
        const events = yield* ask(socket, "GET", `/operations/${operation().id}/events`)
        assert.include(events.type, "text/event-stream")
        assert.strictEqual(events.body.match(/^data:/gm)?.length, 2)
        const output = yield* ask(socket, "POST", "/projects/web/executions", {
          argv: ["x"],
          environment: {}
        })
        assert.include(output.type, "ndjson")
        const lines = output.body
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line) as Record<string, unknown>)
        assert.deepStrictEqual(
          lines.map(({ type }) => type),
          ["started", "output", "output", "exited"]
        )
        assert.strictEqual(lines[1]!["data"], Buffer.from("out\n").toString("base64"))
        const document = yield* ask(socket, "GET", "/openapi.json")
        const { paths } = JSON.parse(document.body) as { paths: Record<string, Record<string, unknown>> }
        for (const [path, method] of [
          ["/projects/{project}/executions", "post"],
          ["/projects/{project}/operations", "get"],
          ["/projects/{project}/history", "get"],
          ["/projects/{project}/leases", "get"],
          ["/projects/{project}/leases", "delete"],
          ["/projects/{project}/desktop", "get"],
          ["/projects/{project}/desktop", "post"],
          ["/projects/{project}/desktop", "delete"],
          ["/projects/{project}/desktop/channel", "get"],
          ["/operations/{id}", "get"],
          ["/operations/{id}/supersede", "post"],
          ["/operations/{id}/why", "get"],
          ["/health", "get"]
        ] as const) {
          assert.property(paths[path], method, path)
        }
      })
  )

  it.live("a Project's name with digits only is refused, since it would be taken for an id", () =>
    Effect.gen(function* () {
      const socket = yield* serveScript()
      for (const name of ["42", "", "-a", "a-", "A", "a".repeat(64), "a b", "a/b"]) {
        const answer = yield* ask(socket, "POST", "/projects", { name })
        assert.strictEqual(answer.status, 400, name)
      }
      assert.strictEqual((yield* ask(socket, "POST", "/projects", { name: "4a" })).status, 201)
    })
  )
})
