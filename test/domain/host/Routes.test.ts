/** Matching of plugin routes: whole patterns, each segment decoded once, canonical ids. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import {
  canonicalId,
  makeRoutes,
  matchPattern,
  RoutePattern,
  Routes
} from "../../../src/domain/host/Routes.ts"

const pattern = "/plugins/sandbox/api/projects/:name/environment"
const ofIds = "/plugins/sandbox/api/projects/:id/environment"
const at = (id: string): string => `/plugins/sandbox/api/projects/${id}/environment`

describe("host/Routes", () => {
  it.each([
    ["the whole pattern", at("7"), "7"],
    ["an escaped segment, decoded once", at("%2537"), "%37"],
    ["a missing segment", "/plugins/sandbox/api/projects/7", null],
    ["an empty parameter", at(""), null],
    ["an undeclared suffix", `${at("7")}/logs`, null],
    ["a trailing slash", `${at("7")}/`, null],
    ["a malformed escape", at("%31%"), null],
    ["an escaped slash, which stays in its segment", at("1%2F2"), "1/2"],
    ["another plugin", at("7").replace("sandbox", "sites"), null]
  ])("SP-HTTP-01 SP-HTTP-02 %s", (_, path, id) => {
    const matched = matchPattern(pattern, path)
    assert.strictEqual(Option.getOrNull(Option.map(matched, (parameters) => parameters["name"])), id)
  })

  it.each(["01", "+1", "1.0", "1e3", "9007199254740993", "%31%", "-1", "0", "", " 1", "1 ", "١", "0x1"])(
    "SP-HTTP-02 %j is no canonical id, and a path with it matches nothing",
    (text) => {
      assert.isTrue(Option.isNone(canonicalId(text)))
      for (const segment of [text, encodeURIComponent(text)]) {
        assert.isTrue(Option.isNone(matchPattern(ofIds, at(segment))), segment)
      }
    }
  )

  it("SP-HTTP-01 an id is decoded once: an escaped digit is one, an escaped escape is none", () => {
    assert.deepStrictEqual(Option.getOrNull(matchPattern(ofIds, at("%31%30"))), { id: "10" })
    assert.isTrue(Option.isNone(matchPattern(ofIds, at("%2531"))))
  })

  it("the largest safe integer is a canonical id", () => {
    assert.strictEqual(Option.getOrNull(canonicalId("9007199254740991")), Number.MAX_SAFE_INTEGER)
  })

  it("a method and pattern are registered once, and matched by both", () => {
    const routes = makeRoutes<string>()
    const route = {
      plugin: "sandbox",
      method: "GET",
      pattern: "projects/:id/environment",
      handler: "read"
    } as const
    assert.isTrue(routes.register(route))
    assert.isFalse(routes.register({ ...route, handler: "other" }))
    assert.isTrue(routes.register({ ...route, method: "POST", handler: "write" }))
    const handlerOf = (method: string) =>
      Option.getOrNull(Option.map(routes.match(method, at("7")), (match) => match.route.handler))
    assert.deepStrictEqual([handlerOf("GET"), handlerOf("POST"), handlerOf("PUT")], ["read", "write", null])
  })

  it("two patterns that match the same paths are one, whatever they call their parameter", () => {
    const routes = makeRoutes<string>()
    const route = { plugin: "sandbox", method: "GET", pattern: "projects/:id", handler: "first" } as const
    assert.isTrue(routes.register(route))
    assert.isFalse(routes.register({ ...route, pattern: "projects/:project" }))
    assert.isTrue(routes.register({ ...route, plugin: "sites" }))
  })

  it.each([
    ["projects/:id/environment", true],
    ["a", true],
    ["", false],
    ["/a", false],
    ["a/", false],
    ["a//b", false],
    ["a/:", false],
    ["a/:1", false],
    ["a/*", false],
    ["a/..", false],
    ["a%20b", false],
    ["A", false]
  ])("a pattern is words and parameters only: %j is one: %s", (text, accepted) => {
    assert.strictEqual(Schema.is(RoutePattern)(text), accepted)
  })

  it.effect("a route that nobody registered matches nothing, and one that is registered twice dies", () =>
    Effect.gen(function* () {
      const routes = yield* Routes
      assert.isTrue(Option.isNone(routes.match("GET", at("7"))))
      const route = {
        plugin: "sandbox",
        method: "GET",
        pattern: "projects/:id/environment",
        handler: ({ parameters }: { readonly parameters: unknown }) => Effect.succeed(parameters)
      } as const
      yield* routes.register(route)
      const matched = Option.getOrThrow(routes.match("GET", at("%37")))
      assert.deepStrictEqual(matched.parameters, { id: "7" })
      assert.isTrue(Exit.hasDies(yield* Effect.exit(routes.register(route))))
    }).pipe(Effect.provide(Routes.layer))
  )
})
