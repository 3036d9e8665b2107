import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { fileURLToPath } from "node:url"
import { diskThreadsMax } from "../../../src/domain/Bounds.ts"
import type { DiskStep, StepFailed } from "../../../src/infra/filesystem/diskSteps.ts"
import { nodeDisk } from "../../../src/infra/filesystem/diskThreads.ts"
import { temporaryDirectory } from "../../domain/registry/fixture.ts"

const carryOut = (steps: ReadonlyArray<DiskStep>) =>
  Effect.callback<StepFailed | null>((resume) =>
    nodeDisk.carryOut(steps, (failed) => resume(Effect.succeed(failed)))
  )

const threadsOf = (pid: number): number => Files.readdirSync(`/proc/${pid}/task`).length

/** Programs of their own, so that a thread can end and a process can be seen to end. */
const runProgram = (text: string): string =>
  execFileSync(process.execPath, ["--input-type=module", "--eval", text], {
    encoding: "utf8",
    timeout: 20_000
  })

const threads = fileURLToPath(new URL("../../../src/infra/filesystem/diskThreads.ts", import.meta.url))

describe("filesystem/diskThreads", () => {
  it.live(
    "steps of one trip are done in order, and stop at the one that fails, which is told by its place",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const at = (name: string) => Path.join(directory, name)
        const steps: ReadonlyArray<DiskStep> = [
          { step: "create", path: at("one"), text: "1" },
          { step: "rename", from: at("one"), to: at("two") },
          { step: "unlink", path: at("nothing") },
          { step: "create", path: at("three"), text: "3" }
        ]
        assert.deepStrictEqual(yield* carryOut(steps), { at: 2, why: "ENOENT" })
        assert.deepStrictEqual(Files.readdirSync(directory), ["two"])
        assert.strictEqual(Files.readFileSync(at("two"), "utf8"), "1")
      })
  )

  it.live(
    "as many trips at once as anybody asks for are each answered, by no more threads than the bound",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        yield* carryOut([])
        const before = threadsOf(process.pid)
        const names = Array.from({ length: 40 }, (_, index) => String(index))
        const answers = yield* Effect.forEach(
          names,
          (name) => carryOut([{ step: "create", path: Path.join(directory, name), text: name }]),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(
          answers,
          names.map(() => null)
        )
        assert.deepStrictEqual(Files.readdirSync(directory).toSorted(), names.toSorted())
        // The first thread was there before.
        assert.isAtMost(threadsOf(process.pid) - before, diskThreadsMax - 1)
      })
  )

  it("a thread that ends leaves its last step in doubt, and the next trip finds another thread", () => {
    const told = runProgram(`
      import { Worker } from "node:worker_threads"
      const started = []
      const send = Worker.prototype.postMessage
      Worker.prototype.postMessage = function (...given) { started.push(this); return send.apply(this, given) }
      const { nodeDisk } = await import(${JSON.stringify(threads)})
      const ask = (steps) => new Promise((resolve) => nodeDisk.carryOut(steps, resolve))
      const steps = [{ step: "sync", descriptor: 1 }, { step: "unlink", path: "/nothing/here" }]
      const first = ask(steps)
      await null
      started[0].terminate()
      console.log(JSON.stringify(await first))
      console.log(JSON.stringify(await ask(steps.slice(1))))
    `)
    assert.deepStrictEqual(
      told
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line)),
      [
        { at: 1, why: "the thread that writes has ended" },
        { at: 0, why: "ENOENT" }
      ]
    )
  })

  it("a process stays for what it has asked for, and not for its threads", () => {
    const told = runProgram(`
      const { nodeDisk } = await import(${JSON.stringify(threads)})
      nodeDisk.carryOut([{ step: "unlink", path: "/nothing/here" }], ({ why }) => console.log(why))
    `)
    assert.strictEqual(told.trim(), "ENOENT")
  })
})
