import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { once } from "node:events"
import * as Files from "node:fs"
import * as Path from "node:path"
import { Worker } from "node:worker_threads"
import type { Answer, Order } from "../../../src/infra/filesystem/diskThreads.ts"
import { temporaryDirectory } from "../../domain/registry/fixture.ts"

const program = new URL("../../../src/infra/filesystem/diskThread.ts", import.meta.url)

describe("filesystem/diskThread", () => {
  it.live(
    "orders that come together are carried out in turn and answered together; one's failure is its own",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const create = (name: string) =>
          ({ step: "create", path: Path.join(directory, name), text: name }) as const
        const worker = yield* Effect.acquireRelease(
          Effect.sync(() => new Worker(program, { execArgv: [] })),
          (started) => Effect.promise(() => started.terminate())
        )
        const orders: ReadonlyArray<Order> = [
          { id: 7, steps: [create("one")] },
          { id: 8, steps: [create("one"), create("never")] },
          { id: 9, steps: [create("two")] }
        ]
        worker.postMessage(orders)
        const [answers] = (yield* Effect.promise(() => once(worker, "message"))) as [ReadonlyArray<Answer>]
        assert.deepStrictEqual(answers, [
          { id: 7, failed: null },
          { id: 8, failed: { at: 0, why: "EEXIST" } },
          { id: 9, failed: null }
        ])
        assert.deepStrictEqual(Files.readdirSync(directory).toSorted(), ["one", "two"])
      })
  )
})
