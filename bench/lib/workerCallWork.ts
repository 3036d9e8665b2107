/**
 * P15c's contenders: the same worker process, asked over the same pipes; by a client of thirty lines that knows no bounds,
 * budgets, cancellations or errors, and by the product's worker manager. The worker counts what it answered.
 */
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { createInterface } from "node:readline"
import { ProviderPluginId } from "../../src/domain/Identity.ts"
import type { ProviderWorkerManager } from "../../src/domain/providers/ProviderWorkers.ts"
import type { WorkerFiles } from "../../src/infra/providers/workerProcess.ts"
import { loopEffects, loopPromises } from "./closedLoop.ts"
import { counted } from "./counted.ts"
import type { Contender } from "./definition.ts"

export const benchPlugin = ProviderPluginId.make("00000000-0000-4000-8000-0000000000be")

const workerText = `
let answered = 0
let rest = ""
process.stdin.setEncoding("utf8").on("data", (text) => {
  const lines = (rest + text).split("\\n")
  rest = lines.pop()
  for (const line of lines) {
    const { id, method } = JSON.parse(line)
    if (id === undefined) continue
    const result = method === "initialize" ? { protocolVersion: 1, supportedMethods: ["echo"] } : { answered }
    if (method === "echo") answered += 1
    process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n")
  }
}).on("end", () => process.exit(0))
`

/** Writes the worker down and answers where it is. */
export const writeWorker = (folder: string): WorkerFiles => {
  const worker = Path.join(folder, "worker.mjs")
  Files.writeFileSync(worker, workerText)
  return { pluginKey: "bench", folder, worker }
}

const params = { driverKey: "bench", tenantId: "t", environmentId: "e", taskId: null, config: { image: "x" } }

/** A worker of its own that a plain client talks to; it ends with this process, whose pipe it reads. */
const plainClient = ({ worker }: WorkerFiles) => {
  const child = spawn(process.execPath, [worker], { stdio: ["pipe", "pipe", "ignore"] })
  const waiting = new Map<number, (result: unknown) => void>()
  let last = 0
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, result } = JSON.parse(line) as { readonly id: number; readonly result: unknown }
    waiting.get(id)?.(result)
    waiting.delete(id)
  })
  const ask = (method: string) =>
    new Promise<unknown>((resolve) => {
      const id = (last += 1)
      waiting.set(id, resolve)
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`)
    })
  child.unref()
  return { ask }
}

/** What the worker counted, less what it had counted before this run. */
const difference = (before: number, now: unknown, all: number): ReadonlyArray<string> => {
  const answered = (now as { readonly answered: number }).answered - before
  return answered === all ? [] : [`the worker answered ${answered} of ${all} calls`]
}

const countOf = (answer: unknown): number => (answer as { readonly answered: number }).answered

export const plainCalls = (files: WorkerFiles): Contender => {
  const client = plainClient(files)
  let before = 0
  return counted(
    "bare stdio",
    (load) =>
      Effect.gen(function* () {
        before = countOf(yield* Effect.promise(() => client.ask("count")))
        return yield* loopPromises(load, () => client.ask("echo"))
      }),
    (all) =>
      Effect.map(
        Effect.promise(() => client.ask("count")),
        (now) => difference(before, now, all)
      )
  )
}

export const managedCalls = (manager: ProviderWorkerManager): Contender => {
  let before = 0
  const count = manager.call(benchPlugin, "count", params)
  return counted(
    "worker manager",
    (load) =>
      Effect.gen(function* () {
        before = countOf(yield* count)
        return yield* loopEffects(load, () => manager.call(benchPlugin, "echo", params, 30_000))
      }),
    (all) => Effect.map(count, (now) => difference(before, now, all))
  )
}
