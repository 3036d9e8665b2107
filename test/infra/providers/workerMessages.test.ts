import { assert, describe, it } from "@effect/vitest"
import { providerMessageBytesMax } from "../../../src/domain/Bounds.ts"
import { lineReader, readMessage, request } from "../../../src/infra/providers/workerMessages.ts"

const answer = JSON.stringify({ jsonrpc: "2.0", id: 7, result: { ok: true } })

describe("providers/workerMessages", () => {
  it("a line cut anywhere is read whole, however many come at once", () => {
    const bytes = Buffer.from(`${answer}\n\n${answer.replace("true", '"ü"')}\n`)
    for (let at = 0; at <= bytes.length; at += 1) {
      const lines: Array<string> = []
      const read = lineReader((line) => lines.push(line))
      assert.isTrue(read(bytes.subarray(0, at)) && read(bytes.subarray(at)))
      assert.deepStrictEqual(lines, [answer, answer.replace("true", '"ü"')])
    }
  })

  it("a line beyond the bound is refused, whether or not it ends, and the bound itself is not", () => {
    const read = lineReader(() => undefined)
    assert.isTrue(read(Buffer.alloc(providerMessageBytesMax, 120)))
    assert.isFalse(read(Buffer.from("x")))
    assert.isFalse(lineReader(() => undefined)(Buffer.from(`${"x".repeat(providerMessageBytesMax + 1)}\n`)))
  })

  it.each([
    ["no JSON", "hello"],
    ["another version", JSON.stringify({ jsonrpc: "1.0", id: 1, result: 1 })],
    ["an array", "[]"],
    ["no id", JSON.stringify({ jsonrpc: "2.0", result: 1 })],
    ["an id that is no number", JSON.stringify({ jsonrpc: "2.0", id: "1", result: 1 })],
    ["an error without a code", JSON.stringify({ jsonrpc: "2.0", id: 1, error: { message: "no" } })],
    ["an error that is no object", JSON.stringify({ jsonrpc: "2.0", id: 1, error: "no" })],
    [
      "a log of another stream",
      JSON.stringify({ jsonrpc: "2.0", method: "log", params: { id: 1, stream: "x", text: "" } })
    ]
  ])("%s is no message", (_, line) => assert.isUndefined(readMessage(line)))

  it("an answer, an error and a log are told apart; a traceparent of another form is left out", () => {
    assert.deepStrictEqual(readMessage(answer), { _tag: "Answer", id: 7, result: { ok: true }, meta: {} })
    const traced = { jsonrpc: "2.0", id: 1, result: null, meta: { traceparent: "hello" } }
    assert.deepStrictEqual(readMessage(JSON.stringify(traced)), {
      _tag: "Answer",
      id: 1,
      result: null,
      meta: {}
    })
    assert.deepStrictEqual(
      readMessage(
        JSON.stringify({ jsonrpc: "2.0", id: 2, error: { code: -32002, message: "m", data: [1] } })
      ),
      { _tag: "Error", id: 2, code: -32002, message: "m", data: [1] }
    )
  })

  it("RL-TRACE-01 what stands beside the parameters leaves them as they are", () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    const sent: unknown = JSON.parse(request(3, "environmentExecute", { command: "x" }, { traceparent }))
    assert.deepStrictEqual(sent, {
      jsonrpc: "2.0",
      id: 3,
      method: "environmentExecute",
      params: { command: "x" },
      meta: { traceparent }
    })
  })
})
