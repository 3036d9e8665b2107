/**
 * The heartbeat of a node: as long as its daemon lives, the database is told at each beat that the node was seen.
 * Nothing is decided by it; it is what is told to those who wait for the node. Source: FC-06.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { heartbeatIntervalMillis } from "../Bounds.ts"
import type { NodeId } from "../Identity.ts"
import { RuntimeStore } from "./RuntimeStore.ts"

/** Beats every `heartbeatIntervalMillis` until it is interrupted; a beat that fails or takes longer costs only itself. */
export const presenceLoop = (node: { readonly id: NodeId; readonly name: string }) =>
  Effect.flatMap(RuntimeStore, (runtimes) => runtimes.registerNode(node)).pipe(
    Effect.timeout(heartbeatIntervalMillis),
    Effect.catch((failure) => Effect.logWarning(`the node was not noted as seen: ${failure.message}`)),
    Effect.repeat(Schedule.fixed(heartbeatIntervalMillis))
  )
