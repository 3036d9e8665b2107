/**
 * What an operation waits for, and since when: a worker that never appears is told and not guessed. Pure; what is
 * looked at is one statement of OperationRows. Whoever has waited enough takes the operation back: supersede.ts.
 * Source: FC-06.
 */
import * as DateTime from "effect/DateTime"
import { nodeUnseenSeconds, operationsAheadCountedMax, operationsAtOnceMax } from "../Bounds.ts"
import type { NodeId, OperationId } from "../Identity.ts"
import type { Operation } from "./Operation.ts"

/** A live operation in its queue. Ages are by the database's clock, as the times beside them. */
export interface QueueSight {
  readonly operation: OperationId
  /** When it was asked for, or asked for again. */
  readonly queuedAtMillis: number
  /** The node that it needs, or whose daemon has claimed it; null: any node may begin it. */
  readonly node: {
    readonly id: NodeId
    /** Null: the database has never known this node. */
    readonly name: string | null
    readonly lastSeenAtMillis: number | null
    readonly unseenSeconds: number | null
  } | null
  /** How long no node at all was seen; null: there is none. */
  readonly allUnseenSeconds: number | null
  /** Older live operations of the same queue, at most `operationsAheadCountedMax`. */
  readonly ahead: number
}

/** `for` is one sentence; `kind` is for programs. */
export interface Waiting {
  readonly kind: "node" | "operations" | "place"
  readonly for: string
  readonly sinceMillis: number
}

const isUnseen = (seconds: number | null): boolean => seconds === null || seconds > nodeUnseenSeconds

const iso = (millis: number): string => DateTime.formatIso(DateTime.makeUnsafe(millis))

const waitingForNode = ({ node, queuedAtMillis }: QueueSight, isClaimed: boolean): Waiting | null => {
  if (node === null || !isUnseen(node.unseenSeconds)) return null
  const name = `node ${node.name ?? node.id}`
  const why = isClaimed ? "whose daemon has claimed it" : "which carries its machine"
  if (node.lastSeenAtMillis === null) {
    return { kind: "node", for: `${name}, ${why} and which was never seen`, sinceMillis: queuedAtMillis }
  }
  return {
    kind: "node",
    for: `${name}, ${why} and which was last seen at ${iso(node.lastSeenAtMillis)}`,
    sinceMillis: Math.max(queuedAtMillis, node.lastSeenAtMillis)
  }
}

const countOf = (ahead: number): string =>
  ahead >= operationsAheadCountedMax
    ? `${ahead} or more operations`
    : `${ahead} ${ahead === 1 ? "operation" : "operations"}`

/** What a live operation waits for; null for one that is being carried out, or is settled. */
export const waitingOf = (
  { state, step }: Pick<Operation, "state" | "step">,
  sight: QueueSight | undefined
): Waiting | null => {
  if (sight === undefined || (state !== "queued" && state !== "claimed")) return null
  const node = waitingForNode(sight, state === "claimed")
  if (node !== null) return node
  const sinceMillis = sight.queuedAtMillis
  if (state === "claimed") {
    return step === null
      ? {
          kind: "place",
          for: `a place: a daemon carries out ${operationsAtOnceMax} operations at a time`,
          sinceMillis
        }
      : null
  }
  if (isUnseen(sight.allUnseenSeconds)) {
    return { kind: "node", for: `any node: none was seen for ${nodeUnseenSeconds} s`, sinceMillis }
  }
  return sight.ahead > 0
    ? { kind: "operations", for: `${countOf(sight.ahead)} of its queue, asked for before it`, sinceMillis }
    : { kind: "place", for: "a daemon that claims it: it is the next of its queue", sinceMillis }
}
