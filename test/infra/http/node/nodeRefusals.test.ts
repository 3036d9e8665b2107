/** Every refusal of the node's API as its callers meet it: the codes of the specification and no others. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { GuestSpecRefused } from "../../../../src/domain/guests/GuestSupervisor.ts"
import { SandboxRecord } from "../../../../src/domain/registry/Record.ts"
import { NodeCode, nodeAnswerOf, nodeCodes } from "../../../../src/infra/http/node/nodeRefusals.ts"
import { refusalTable } from "../../../../src/infra/http/refusals.ts"
import { failNext as failGuest } from "../../../../src/infra/guests/scriptedState.ts"
import { failNext, sandboxOf } from "../../../domain/registry/fixture.ts"
import { ask, creation, type Answered, type ServedNode, serveFresh } from "./nodeServer.ts"

type Options = Parameters<typeof serveFresh>[0]

interface Case {
  readonly told: string
  readonly code: NodeCode
  readonly status: number
  readonly options?: Options
  /** Brings it about and answers what the caller was answered. */
  readonly ask: (served: ServedNode, sandbox: string) => Effect.Effect<Answered, unknown>
}

const post = ({ socketPath }: ServedNode, path: string, body?: unknown) =>
  ask(socketPath, "POST", `/node/sandboxes${path}`, body)
const get = ({ socketPath }: ServedNode, path: string) => ask(socketPath, "GET", `/node/sandboxes${path}`)

const command = { argv: ["true"], environment: {} }

const cases: ReadonlyArray<Case> = [
  {
    told: "an absurd request",
    code: "INVALID_REQUEST",
    status: 400,
    ask: (served) => post(served, "", creation("x", { resources: { cpu: "0", memory: "1Gi" } }))
  },
  {
    told: "an image that is not there",
    code: "INVALID_REQUEST",
    status: 400,
    options: {
      supervisor: (real) => ({
        ...real,
        validate: ({ image, sandbox }) =>
          image === "host"
            ? Effect.void
            : Effect.fail(new GuestSpecRefused({ sandbox, field: "image", why: "it is not there" }))
      })
    },
    ask: (served) => post(served, "", creation("x", { image: "/missing" }))
  },
  {
    told: "a path that the API does not have",
    code: "INVALID_REQUEST",
    status: 404,
    ask: (served, sandbox) => post(served, `/${sandbox}/reboot`, {})
  },
  {
    told: "a sandbox that never was",
    code: "SANDBOX_NOT_FOUND",
    status: 404,
    ask: (served) => get(served, `/${sandboxOf(99)}`)
  },
  {
    told: "a command in a paused sandbox",
    code: "INVALID_SANDBOX_STATE",
    status: 409,
    ask: (served, sandbox) =>
      Effect.andThen(post(served, `/${sandbox}/pause`), post(served, `/${sandbox}/executions`, command))
  },
  {
    told: "a resume of what is being deleted",
    code: "INVALID_SANDBOX_STATE",
    status: 409,
    ask: (served, sandbox) =>
      Effect.gen(function* () {
        failGuest(served.node.guests, "end")
        yield* ask(served.socketPath, "DELETE", `/node/sandboxes/${sandbox}`)
        return yield* post(served, `/${sandbox}/resume`)
      })
  },
  {
    told: "a command in a sandbox whose life is over",
    code: "SANDBOX_EXPIRED",
    status: 409,
    ask: (served, sandbox) =>
      Effect.gen(function* () {
        const { registry } = served.node
        const [record] = (yield* registry.inventory).values()
        yield* registry.update(record!.id, (before) =>
          Result.succeed(new SandboxRecord({ ...before, expiresAtMillis: 1 }))
        )
        return yield* post(served, `/${sandbox}/executions`, command)
      })
  },
  {
    told: "one sandbox more than there is room for",
    code: "CAPACITY_EXCEEDED",
    status: 409,
    options: { capacity: { sandboxes: 1, cpuMillis: 1_000, memoryBytes: 1024 ** 4 } },
    ask: (served) => post(served, "", creation("x"))
  },
  {
    told: "a record more than the budget has room for",
    code: "CAPACITY_EXCEEDED",
    status: 409,
    options: { budgetBytes: 3_000 },
    ask: (served) => post(served, "", creation("x", { metadata: { a: "b".repeat(3_000) } }))
  },
  {
    told: "a guest that does not come up",
    code: "SANDBOX_CREATE_FAILED",
    status: 503,
    ask: (served) => {
      failGuest(served.node.guests, "start")
      return post(served, "", creation("x"))
    }
  },
  {
    told: "a pause where the supervisor cannot",
    code: "NOT_SUPPORTED",
    status: 422,
    options: {
      supervisor: (real) => ({ ...real, capabilities: { ...real.capabilities, pause: false } })
    },
    ask: (served, sandbox) => post(served, `/${sandbox}/pause`)
  },
  {
    told: "a write that failed",
    code: "STORAGE_UNAVAILABLE",
    status: 503,
    ask: (served) => {
      failNext(served.node.disk, "create")
      return post(served, "", creation("x"))
    }
  },
  {
    told: "a read behind the closed latch",
    code: "STORAGE_UNAVAILABLE",
    status: 503,
    ask: (served, sandbox) => {
      failNext(served.node.disk, "sync")
      return Effect.andThen(post(served, "", creation("x")), get(served, `/${sandbox}`))
    }
  },
  {
    told: "a guest at which the machine failed",
    code: "RUNTIME_UNAVAILABLE",
    status: 503,
    ask: (served, sandbox) => {
      failGuest(served.node.guests, "pause")
      return post(served, `/${sandbox}/pause`)
    }
  },
  {
    told: "a guest that does not answer after its resume",
    code: "ENDPOINT_UNAVAILABLE",
    status: 503,
    ask: (served, sandbox) =>
      Effect.gen(function* () {
        yield* post(served, `/${sandbox}/pause`)
        failGuest(served.node.guests, "ping")
        return yield* post(served, `/${sandbox}/resume`)
      })
  },
  {
    told: "a port of a guest at which the machine failed",
    code: "ENDPOINT_UNAVAILABLE",
    status: 503,
    ask: (served, sandbox) => {
      failGuest(served.node.guests, "openPort")
      return post(served, `/${sandbox}/endpoint`, { port: 80 })
    }
  },
  {
    told: "a port that is none",
    code: "INVALID_REQUEST",
    status: 400,
    ask: (served, sandbox) => post(served, `/${sandbox}/endpoint`, { port: 65_536 })
  },
  {
    told: "a key with another request",
    code: "IDEMPOTENCY_CONFLICT",
    status: 409,
    ask: (served) => post(served, "", creation("k", { argv: ["/bin/true"] }))
  }
]

describe("node/refusals", () => {
  it.live.each(cases)("RG figures $code ($status): $told", ({ ask: bring, code, options, status }) =>
    Effect.gen(function* () {
      const served = yield* serveFresh(options)
      const { sandbox } = yield* served.client.sandboxes.create({ payload: creation("k") })
      const answer = yield* bring(served, sandbox)
      assert.deepStrictEqual([answer.status, answer.body.code], [status, code], answer.text)
      assert.isNotEmpty(answer.body.message)
    })
  )

  it("RG figures the codes are those of the specification, and each but one has been met above", () => {
    const met = new Set(cases.map(({ code }) => code))
    // Who may not reach the socket is refused by the kernel.
    assert.deepStrictEqual(
      NodeCode.literals.filter((code) => !met.has(code)),
      ["UNAUTHORIZED"]
    )
    assert.deepStrictEqual([...new Set(nodeCodes.values())].toSorted(), [...NodeCode.literals].toSorted())
  })

  it("every code of the domain that it translates is a refusal that the domain has", () => {
    for (const code of nodeCodes.keys()) assert.property(refusalTable, code)
  })

  it("whoever may not is answered 403", () => {
    const answer = nodeAnswerOf({ code: "access_refused", message: "no" })
    assert.strictEqual(answer.code, "UNAUTHORIZED")
  })

  it("what nobody foresaw is answered with a fixed text and no detail", () => {
    for (const code of ["brand_new", "constructor", "claim_lost"]) {
      const answer = nodeAnswerOf({ code, message: "canary" })
      assert.strictEqual(answer.code, "RUNTIME_UNAVAILABLE")
      assert.notInclude(JSON.stringify(answer), "canary")
    }
  })

  it("of the fields of a refusal only those are shown that the table of all refusals names", () => {
    const refusal = { code: "sandbox_not_found", message: "m", sandbox: "sb-1", token: "canary" }
    const answer = nodeAnswerOf(refusal)
    assert.deepStrictEqual(answer.details, { sandbox: "sb-1" })
  })
})
