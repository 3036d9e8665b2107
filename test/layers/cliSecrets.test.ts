import { assert, describe, it } from "@effect/vitest"
import { runExitOf } from "../../src/layers/cli/environmentRun.ts"
import { CliFailure } from "../../src/layers/cli/Failure.ts"
import { secretValueOf } from "../../src/layers/cli/secrets.ts"

describe("holdfast secret", () => {
  it.each([
    ["a line without its end", "key", "key"],
    ["the line end of echo", "key\n", "key"],
    ["one of another system", "key\r\n", "key"],
    ["only one line end is echo's", "key\n\n", "key\n\n"],
    [
      "a key of several lines keeps its last one",
      "-----BEGIN\nabc\n-----END\n",
      "-----BEGIN\nabc\n-----END\n"
    ],
    ["blanks are part of a value", " key ", " key "]
  ])("%s", (_, text, value) => {
    assert.strictEqual(secretValueOf(text), value)
  })
})

describe("holdfast run", () => {
  const exited = (fields: object) =>
    runExitOf({ type: "exited", exitCode: null, signal: null, timedOut: false, ...fields })

  it("the exit code is the command's own, 128 and more by a signal, 124 when time ran out", () => {
    assert.deepStrictEqual(
      [
        exited({ exitCode: 0 }),
        exited({ exitCode: 7 }),
        exited({ signal: "SIGKILL" }),
        exited({ signal: "SIGTERM" }),
        exited({ exitCode: 3, timedOut: true })
      ],
      [0, 7, 137, 143, 124]
    )
  })

  it("a stream that failed or broke off is a failure of holdfast's own", () => {
    for (const last of [undefined, { type: "failed", code: "provider_failed", message: "no" }] as const) {
      const exit = runExitOf(last)
      assert.instanceOf(exit, CliFailure)
      assert.strictEqual(typeof exit === "number" ? exit : exit.exit, 255)
    }
  })
})
