/** Real daemons of a node alone, for tests: processes of their own on a private home directory, without a database. */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { layer as layerClient, NodeClient } from "../../src/infra/http/node/nodeClient.ts"
import { socketPathOf } from "../../src/layers/config.ts"
import { type RunningDaemon, startProcess } from "./daemonProcess.ts"
import type { KillPoint } from "./killingObserver.ts"

const readyMillisMax = 60_000
const pollMillis = 20

/** Starts a node's daemon; it is killed with the scope. */
export const startNode = (home: string, killAt?: KillPoint) =>
  startProcess(["--home", home, "node", "up"], killAt)

/** A client of whichever daemon serves the home now. */
export const nodeClientOf = (home: string): Effect.Effect<NodeClient["Service"]> =>
  NodeClient.pipe(Effect.provide(layerClient(socketPathOf(home))))

/** Waits until the node has looked at what the last daemon left; one that ends before is told with what it wrote. */
export const awaitNode = Effect.fnUntraced(function* (home: string, daemon: RunningDaemon) {
  const client = yield* nodeClientOf(home)
  yield* Effect.suspend(() =>
    daemon.process.exitCode === null && daemon.process.signalCode === null
      ? Effect.option(client.node.readiness())
      : Effect.die(new Error(`the daemon ended before it was ready:\n${daemon.output()}`))
  ).pipe(
    Effect.repeat({
      until: (seen) => seen._tag === "Some" && seen.value.state === "ready",
      schedule: Schedule.spaced(pollMillis)
    }),
    Effect.timeoutOrElse({
      duration: readyMillisMax,
      orElse: () => Effect.die(new Error(`the daemon was not ready in time:\n${daemon.output()}`))
    })
  )
  return client
})
