import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Result from "effect/Result"
import { runtimeProcessesDefault, sandboxLifeSecondsDefault } from "../../../../src/domain/Bounds.ts"
import { Generation, isSandboxId, NodeId, RequestKey } from "../../../../src/domain/Identity.ts"
import type { SandboxCreation } from "../../../../src/infra/http/node/NodeApi.ts"
import { keyedRequest, sandboxOfKey } from "../../../../src/infra/http/node/nodeRequests.ts"
import { uuid } from "../scriptedServer.ts"
import { creation } from "./nodeServer.ts"

const node = NodeId.make(uuid(1))
const terms = { node, actor: "uid:7", lifeSecondsMax: 365 * 24 * 3_600 }

const read = (fields: Partial<SandboxCreation> = {}, key = "k") =>
  Result.getOrThrow(keyedRequest(creation(key, fields), terms))

describe("node/requests", () => {
  it.prop(
    "every key has one sandbox of its own on every node, with a canonical id",
    { one: Arbitrary.schema(RequestKey), other: Arbitrary.schema(RequestKey) },
    ({ one, other }) => {
      const sandbox = sandboxOfKey(node, one)
      assert.isTrue(isSandboxId(sandbox))
      assert.match(sandbox, /^sb-.{8}-.{4}-8.{3}-[89ab].{3}-.{12}$/)
      assert.strictEqual(sandboxOfKey(node, one), sandbox)
      assert.notStrictEqual(sandboxOfKey(NodeId.make(uuid(2)), one), sandbox)
      if (one !== other) assert.notStrictEqual(sandboxOfKey(node, other), sandbox)
    }
  )

  it("the id and the hash of a request do not change from one release to the next: records and tombstones stand under it", () => {
    assert.strictEqual(
      sandboxOfKey(node, RequestKey.make("a-key")),
      "sb-6c1cc5d1-6097-843e-804b-6410863833cc"
    )
    const { hash } = read({ environment: { A: "secret" } }).origin
    assert.strictEqual(hash, "de6de770e41ce333afd9a50952c3c256eab1dff81f96a247ba27d10ef42da01a")
  })

  it("what is left out has its default, and a node that lives shorter has its own", () => {
    const request = read()
    assert.deepInclude(request, {
      id: sandboxOfKey(node, RequestKey.make("k")),
      generation: Generation.make(1),
      image: "host",
      disk: null,
      cpuMillis: 100,
      memoryBytes: 128 * 1024 ** 2,
      processesMax: runtimeProcessesDefault,
      lifeSeconds: sandboxLifeSecondsDefault
    })
    const short = keyedRequest(creation("k"), { ...terms, lifeSecondsMax: 300 })
    assert.strictEqual(Result.getOrThrow(short).lifeSeconds, 300)
  })

  it("the hash is of the request and not of its key, its wording or its secrets", () => {
    const { hash } = read().origin
    assert.match(hash, /^[0-9a-f]{64}$/)
    const same = [
      read({}, "other"),
      read({ resources: { cpu: "100m", memory: "131072Ki" } }),
      read({ image: "host" })
    ]
    for (const { origin } of same) assert.strictEqual(origin.hash, hash)
    const secret = (value: string) => read({ environment: { A: value } }).origin.hash
    assert.strictEqual(secret("one"), secret("another"))
    for (const other of [read({ argv: ["a"] }), read({ lifeSeconds: 60 }), read({ environment: { A: "" } })])
      assert.notStrictEqual(other.origin.hash, hash)
  })
})
