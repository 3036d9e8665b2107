/**
 * The plugins' routes over a real socket: every path that no pattern is met by is a 404 before anything runs. The
 * handlers and the identification only count, so that "nothing ran" is a figure.
 */
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { requestBodyBytesMax } from "../../../src/domain/Bounds.ts"
import type { Caller } from "../../../src/domain/host/Accounts.ts"
import { type RouteHandler, type RouteRequest, Routes } from "../../../src/domain/host/Routes.ts"
import { layerPluginRoutes, rawPathOf } from "../../../src/infra/http/pluginRoutes.ts"
import { RouteCaller } from "../../../src/infra/http/RouteCaller.ts"
import { layer as layerSocket } from "../../../src/infra/http/socketServer.ts"
import { ask, codeOf } from "./asking.ts"
import { administrator, scriptedRoutes, temporaryDirectory } from "./scriptedServer.ts"

const environment = (id: string): string => `/plugins/sandbox/api/projects/${id}/environment`

interface Scene {
  readonly caller?: Option.Option<Caller>
  readonly handler?: RouteHandler
  readonly methods?: ReadonlyArray<"GET" | "POST">
}

/** A socket with the scripted API and the plugin's two routes; what ran is written down. */
const serve = Effect.fnUntraced(function* (scene: Scene = {}) {
  const ran: Array<RouteRequest> = []
  let identified = 0
  const path = Path.join(yield* temporaryDirectory, "d.sock")
  const registering = Layer.effectDiscard(
    Effect.gen(function* () {
      const routes = yield* Routes
      for (const method of scene.methods ?? (["GET", "POST"] as const)) {
        yield* routes.register({
          plugin: "sandbox",
          method,
          pattern: "projects/:id/environment",
          handler: (request) => {
            ran.push(request)
            return scene.handler?.(request) ?? Effect.succeed({ id: request.parameters["id"] })
          }
        })
      }
    })
  )
  const who = Layer.succeed(
    RouteCaller,
    Effect.sync(() => {
      identified += 1
      return scene.caller ?? Option.some(administrator)
    })
  )
  const plugins = layerPluginRoutes.pipe(
    Layer.provide(Layer.mergeAll(who, registering.pipe(Layer.provideMerge(Routes.layer))))
  )
  yield* Layer.build(layerSocket(Layer.merge(scriptedRoutes(), plugins), { path, stopGraceMillis: 100 }))
  return { path, ran, identified: () => identified }
})

const noCanonicalId = ["01", "+1", "1.0", "1e3", "9007199254740993", "%31%", "-1", "0", ""]

const noSuchPath: ReadonlyArray<readonly [string, string]> = [
  ["a missing segment", "/plugins/sandbox/api/projects/7"],
  ["no segment at all", "/plugins/"],
  ["another plugin", environment("7").replace("sandbox", "sites")],
  ["an undeclared suffix", `${environment("7")}/logs`],
  ["a trailing slash", `${environment("7")}/`],
  ["two trailing slashes", `${environment("7")}//`],
  ["a double slash before the id", "/plugins/sandbox/api/projects//7/environment"],
  ["a double slash at the beginning", `/${environment("7")}`],
  ["an escaped slash in the id", environment("7%2F")],
  ["an escaped slash in place of a slash", "/plugins/sandbox/api/projects%2F7/environment"],
  ["a malformed escape", environment("%")],
  ["a malformed escape in a word", "/plugins/sandbox/api/project%7/7/environment"],
  ["an escape that is no text", environment("%FF")],
  ["an id escaped twice", environment("%2537")],
  ["another case of a word", environment("7").replace("projects", "Projects")],
  ["another case of the base", environment("7").replace("plugins", "PLUGINS")],
  ["a dot segment", "/plugins/sandbox/api/projects/7/../7/environment"],
  ["a blank beside the id", environment("7%20")],
  ["a semicolon beside the id", environment("7;a=b")],
  ["a digit of another script", environment("%D9%A7")]
]

describe("pluginRoutes", () => {
  it.live("SP-HTTP-01 both methods are served at the declared path, and the id is decoded once", () =>
    Effect.gen(function* () {
      const { path, ran } = yield* serve()
      for (const target of [
        environment("7"),
        environment("%37"),
        `${environment("7")}?a=/b%`,
        `http://localhost${environment("7")}`
      ]) {
        for (const method of ["GET", "POST"]) {
          const answer = yield* ask(path, method, target, method === "GET" ? undefined : {})
          assert.deepStrictEqual([answer.status, answer.body], [200, '{"id":"7"}'], `${method} ${target}`)
        }
      }
      assert.lengthOf(ran, 8)
      const largest = String(Number.MAX_SAFE_INTEGER)
      assert.include((yield* ask(path, "GET", environment(largest))).body, largest)
    })
  )

  it.live.each(noCanonicalId)("SP-HTTP-02 the id %j is a 404, and nothing runs", (id) =>
    Effect.gen(function* () {
      const { identified, path, ran } = yield* serve()
      for (const method of ["GET", "POST"]) {
        const answer = yield* ask(path, method, environment(id), method === "GET" ? undefined : {})
        assert.deepStrictEqual([answer.status, codeOf(answer)], [404, "not_found"], method)
      }
      assert.deepStrictEqual([ran.length, identified()], [0, 0])
    })
  )

  it.live.each(noSuchPath)("SP-HTTP-02 SP-HTTP-04 %s is a 404, and nothing runs", ([, target]) =>
    Effect.gen(function* () {
      const { identified, path, ran } = yield* serve()
      for (const method of ["GET", "POST"]) {
        const answer = yield* ask(path, method, target, method === "GET" ? undefined : {})
        assert.deepStrictEqual([answer.status, codeOf(answer)], [404, "not_found"], method)
      }
      assert.deepStrictEqual([ran.length, identified()], [0, 0])
    })
  )

  it.live(
    "SP-HTTP-04 a method that nobody registered is a 404, and so is everything before registration",
    () =>
      Effect.gen(function* () {
        const both = yield* serve()
        for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS"]) {
          assert.strictEqual((yield* ask(both.path, method, environment("7"))).status, 404, method)
        }
        assert.strictEqual((yield* ask(both.path, "HEAD", environment("7"))).status, 404)
        const none = yield* serve({ methods: [] })
        assert.strictEqual((yield* ask(none.path, "GET", environment("7"))).status, 404)
        assert.deepStrictEqual([both.ran.length, both.identified(), none.identified()], [0, 0, 0])
      })
  )

  it.live("SP-HTTP-04 credentials without an account reach no handler", () =>
    Effect.gen(function* () {
      const { path, ran } = yield* serve({ caller: Option.none() })
      for (const method of ["GET", "POST"]) {
        const answer = yield* ask(path, method, environment("7"))
        assert.deepStrictEqual([answer.status, codeOf(answer)], [403, "account_required"])
      }
      assert.lengthOf(ran, 0)
    })
  )

  it.live("SP-HTTP-03 the caller is the verified one and the body is what was sent, or nothing", () =>
    Effect.gen(function* () {
      const { path, ran } = yield* serve()
      yield* ask(path, "POST", environment("7"), { initiator: "system" })
      yield* ask(path, "POST", environment("7"))
      yield* ask(path, "GET", environment("7"), { ignored: true })
      assert.deepStrictEqual(
        ran.map(({ body }) => body),
        [{ initiator: "system" }, undefined, undefined]
      )
      assert.isTrue(ran.every(({ caller }) => caller === administrator))
    })
  )

  it.live("a body that is no JSON, or too large, reaches no handler and is not repeated", () =>
    Effect.gen(function* () {
      const { path, ran } = yield* serve()
      const broken = yield* ask(path, "POST", environment("7"), '{"canary')
      assert.deepStrictEqual([broken.status, codeOf(broken)], [400, "invalid_request"])
      assert.notInclude(broken.body, "canary")
      const large = yield* ask(path, "POST", environment("7"), `"${"x".repeat(requestBodyBytesMax)}"`)
      assert.deepStrictEqual([large.status, codeOf(large)], [413, "body_too_large"])
      assert.lengthOf(ran, 0)
    })
  )

  it.live("SP-HTTP-05 a handler's refusal has its status and its code; a defect tells nothing", () =>
    Effect.gen(function* () {
      const refusing = yield* serve({
        handler: () => Effect.fail({ code: "project_deletion_required", message: "m", secret: "canary" })
      })
      const refused = yield* ask(refusing.path, "GET", environment("7"))
      assert.deepStrictEqual([refused.status, codeOf(refused)], [409, "project_deletion_required"])
      assert.notInclude(refused.body, "canary")
      const dying = yield* serve({ handler: () => Effect.die(new Error("canary")) })
      const died = yield* ask(dying.path, "GET", environment("7"))
      assert.deepStrictEqual([died.status, codeOf(died)], [500, "internal"])
      assert.notInclude(died.body, "canary")
    })
  )

  it.live("the API beside the plugins' routes is served as before", () =>
    Effect.gen(function* () {
      const { identified, path } = yield* serve()
      assert.strictEqual((yield* ask(path, "GET", "/projects/web")).status, 200)
      assert.strictEqual((yield* ask(path, "GET", "/plugins")).status, 404)
      assert.strictEqual(identified(), 0)
    })
  )

  it.each([
    ["/a/b?c=d", "/a/b"],
    ["/a//b/#c", "/a//b/"],
    ["http://host:1/a?b", "/a"],
    ["HTTP://host/a/../b", "/a/../b"],
    ["http://host", ""],
    ["*", "*"]
  ])("the path of the target %j is %j", (target, path) => {
    assert.strictEqual(rawPathOf(target), path)
  })
})
