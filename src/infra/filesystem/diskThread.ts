/** One of the threads that write (diskThreads.ts): carries out what it is sent, and answers. */
import * as Files from "node:fs"
import { parentPort } from "node:worker_threads"
import { callsOfAll } from "./diskSteps.ts"
import type { Answer, Order } from "./diskThreads.ts"

const carryOut = ({ id, steps }: Order): Answer => {
  const program = callsOfAll(steps, Files)
  let next = program.next()
  while (next.done !== true) next = program.next()
  return { id, failed: next.value }
}

parentPort?.on("message", (orders: ReadonlyArray<Order>) => parentPort?.postMessage(orders.map(carryOut)))
