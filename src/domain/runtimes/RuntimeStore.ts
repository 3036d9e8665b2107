/**
 * Port of the runtimes' rows: the root store runs standalone statements and opens transactions; the bound store is
 * what a transaction's body gets, on the transaction's own connection. Every write is conditional on the generation
 * that its caller saw and answers whether the row moved. Operations have their own port: OperationStore.ts.
 *
 * A write after which the machine is observed as something else, or is another one, advances the refresh epoch in the
 * same statement: what was measured before says nothing of the machine any more. Source: SP-RES-02, SP-RES-04.
 *
 * Every recipe is at each moment in the runtime's row or owed by a receipt: save the old one with the operation
 * before `replaceMachine` takes its place.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type Generation, NodeId, type ProcessIdentity, type ProjectId } from "../Identity.ts"
import type {
  InsideTransaction,
  OutsideTransaction,
  PluginTx,
  StorageError,
  StorageFailure,
  TransactionEnded
} from "../persistence/PluginDb.ts"
import type { MachineRecipe, Runtime, RuntimeDesired, RuntimeObserved } from "./Runtime.ts"

/** What was seen of a machine, and under which generation it was asked. `reason` is a sentence of ours, or null. */
export interface Observation {
  readonly generation: Generation
  readonly observed: RuntimeObserved
  readonly reason: string | null
}

/** Reads and conditional writes of runtimes, the same standalone and in a transaction. */
export interface RuntimeStatements<E> {
  /** The runtime's row. In a writing transaction it is locked FOR UPDATE. Source: SP-TX-04, SP-TX-05. */
  readonly runtime: (project: ProjectId) => Effect.Effect<Option.Option<Runtime>, E>
  /** Makes an unprovisioned runtime of generation 1; answers false where there is one. */
  readonly createIfMissing: (project: ProjectId) => Effect.Effect<boolean, E>
  /**
   * Says what is wanted from now on and, unless null, what the machine is meanwhile: both or neither. False when the
   * machine was replaced, and nothing is written.
   */
  readonly begin: (
    project: ProjectId,
    begun: {
      readonly generation: Generation
      readonly desired: RuntimeDesired
      readonly observedMeanwhile: RuntimeObserved | null
      /** Whether somebody asked for it: then the count of automatic recoveries begins anew. */
      readonly isManual: boolean
    }
  ) => Effect.Effect<boolean, E>
  /**
   * Records what was seen; false when the machine was replaced meanwhile, or is not as it was under `refreshEpoch`, if
   * that is given; then nothing is written.
   */
  readonly observe: (
    project: ProjectId,
    observation: Observation & { readonly refreshEpoch?: number }
  ) => Effect.Effect<boolean, E>
  /** Stores the recipe of the present generation with its node and sandbox. False when the generation moved on. */
  readonly saveRecipe: (
    project: ProjectId,
    saved: { readonly generation: Generation; readonly recipe: MachineRecipe }
  ) => Effect.Effect<boolean, E>
  /**
   * Puts another machine in place of generation `from`: the generation becomes `from + 1`, which the recipe must
   * name already, and late writers of the old one lose. False when `from` is not the present generation.
   */
  readonly replaceMachine: (
    project: ProjectId,
    replacement: { readonly from: Generation; readonly recipe: MachineRecipe }
  ) => Effect.Effect<boolean, E>
  /** Removes the row; false when the generation moved on or nothing was there. Only project removal asks for it. */
  readonly remove: (project: ProjectId, generation: Generation) => Effect.Effect<boolean, E>
}

/** The installation knows as many nodes as it may; this one is not among them. Source: FC-15. */
export class NodesFull extends Schema.TaggedError<NodesFull>()("NodesFull", {
  node: NodeId,
  nodesMax: Schema.Int
}) {
  readonly code = "nodes_full"
  override get message(): string {
    return `node ${this.node} is not admitted: the database knows ${this.nodesMax} nodes already, as many as it may; use the state directory of one of them`
  }
}

/** Store of one transaction: no method opens a connection. After the end it fails with `TransactionEnded`. */
export type BoundRuntimeStore = RuntimeStatements<StorageFailure | TransactionEnded>

export class RuntimeStore extends Context.Service<
  RuntimeStore,
  RuntimeStatements<StorageFailure> & {
    /** Who writes through this store. */
    readonly process: ProcessIdentity
    /** Runs the body in one transaction with a store bound to its connection. Source: SP-TX-01. */
    readonly transaction: <A, E, R>(
      operation: string,
      body: (store: BoundRuntimeStore) => Effect.Effect<A, E, R> & InsideTransaction<R>
    ) => Effect.Effect<A, E | StorageError, Exclude<R, PluginTx>>
    /** The same on one read-only snapshot: no row lock is taken, no writer is blocked. Source: SP-TX-05. */
    readonly snapshot: <A, E, R>(
      operation: string,
      body: (store: BoundRuntimeStore) => Effect.Effect<A, E, R> & InsideTransaction<R>
    ) => Effect.Effect<A, E | StorageError, Exclude<R, PluginTx>>
    /** Writes the node's row, or its name and the time it was last seen. Called at start and by each heartbeat. */
    readonly registerNode: (node: {
      readonly id: NodeId
      readonly name: string
    }) => Effect.Effect<void, NodesFull | StorageFailure>
    /**
     * The runtimes after `after` that have neither a queued nor a claimed operation, in the order of their Projects, at
     * most `limit`: the sweep's walk.
     */
    readonly idlePage: (walk: {
      readonly after: number
      readonly limit: number
    }) => Effect.Effect<ReadonlyArray<Runtime>, StorageFailure>
  }
>()("holdfast/domain/runtimes/RuntimeStore") {
  declare readonly [OutsideTransaction]: true
}
