/**
 * The end of a claimed operation on the schema: in the caller's transaction, in a statement of its own, or in one that
 * it shares with other ends which wait anyway. Source: SP-OPS-04, SP-OPS-06.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { receiptsKeptMin, receiptsTrimmedMax } from "../../domain/Bounds.ts"
import type { OperationProgress } from "../../domain/operations/OperationEvents.ts"
import {
  type BoundError,
  ClaimLost,
  type HeldClaim,
  type OperationRows,
  type SettleOutcome
} from "../../domain/operations/OperationStore.ts"
import type { PluginDb, SqlRow, StorageFailure } from "../../domain/persistence/PluginDb.ts"
import type { Observation } from "../../domain/runtimes/RuntimeStore.ts"
import { lockKey } from "./locks.ts"
import { joinOrOwn, progressColumns, progressOfRow } from "./rows.ts"
import { columnOf, makeSharedCalls } from "./sharedCalls.ts"

export const lostClaim = ({ claimSequence, id, project }: HeldClaim) =>
  new ClaimLost({ operation: id, project, claimSequence })

interface End {
  readonly claim: HeldClaim
  readonly outcome: SettleOutcome
  readonly observation: Observation | undefined
}

const failureOf = ({ outcome }: End) => (outcome.state === "succeeded" ? null : outcome)
const resultOf = ({ outcome: { result } }: End) => (result === undefined ? null : JSON.stringify(result))

const settleText = `select ${progressColumns} from settle_operation($1::bigint, $2::text, $3::bigint, $4::bigint,
  $5::text, $6::text, $7::text, $8::text::jsonb, $9::bigint, $10::text, $11::text, $12::int, $13::int, $14::bigint)`

const settle =
  (run: ReturnType<typeof joinOrOwn>) =>
  (end: End): Effect.Effect<OperationProgress, ClaimLost | BoundError> => {
    const { claim, observation, outcome } = end
    return run({
      operation: "OperationRows.settle",
      text: settleText,
      parameters: [
        claim.rowId,
        claim.claimedBy,
        claim.claimSequence,
        claim.project,
        outcome.state,
        failureOf(end)?.code ?? null,
        failureOf(end)?.text ?? null,
        resultOf(end),
        observation?.generation ?? null,
        observation?.observed ?? null,
        observation?.reason ?? null,
        receiptsKeptMin,
        receiptsTrimmedMax,
        lockKey("receipts", claim.project)
      ]
    }).pipe(
      Effect.flatMap(([row]) =>
        row === undefined ? Effect.fail(lostClaim(claim)) : Effect.succeed(progressOfRow(row))
      )
    )
  }

const settleManyText = `select * from settle_operations($1::text, $2::bigint[],
  $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::text[], $11::text[],
  $12::bigint[], $13::int, $14::int)`

const manyParameters = (process: string, ends: ReadonlyArray<End>): ReadonlyArray<unknown> => [
  process,
  ends.map(({ claim }) => BigInt(claim.rowId)),
  ends.map(({ claim }) => BigInt(claim.claimSequence)),
  ends.map(({ claim }) => BigInt(claim.project)),
  ends.map(({ outcome }) => outcome.state),
  columnOf(ends, (end) => failureOf(end)?.code ?? null),
  columnOf(ends, (end) => failureOf(end)?.text ?? null),
  columnOf(ends, resultOf),
  columnOf(ends, ({ observation }) => (observation === undefined ? null : BigInt(observation.generation))),
  columnOf(ends, ({ observation }) => observation?.observed ?? null),
  columnOf(ends, ({ observation }) => observation?.reason ?? null),
  ends.map(({ claim }) => lockKey("receipts", claim.project)),
  receiptsKeptMin,
  receiptsTrimmedMax
]

/** How far an operation was when it ended, by its row. What its holder says of it is not asked for again. */
const endedOf = (
  ends: ReadonlyArray<End>,
  columns: SqlRow | undefined
): ReadonlyMap<number, OperationProgress> => {
  const given = new Map(ends.map((end) => [end.claim.rowId, end]))
  const ended = new Map<number, OperationProgress>()
  const column = <A>(name: string) => (columns?.[name] ?? []) as ReadonlyArray<A>
  const actions = column<OperationProgress["action"]>("actions")
  const steps = column<string | null>("steps")
  const fractions = column<number>("fractions")
  const messages = column<string | null>("messages")
  column<bigint>("ended").forEach((written, at) => {
    const row = Number(written)
    const end = given.get(row)!
    ended.set(row, {
      project: end.claim.project,
      operation: end.claim.id,
      action: actions[at]!,
      state: end.outcome.state,
      step: steps[at]!,
      fraction: fractions[at]!,
      message: messages[at]!,
      errorCode: failureOf(end)?.code ?? null
    })
  })
  return ended
}

/** A daemon's claims are all its own: an end of another claimant is left out. */
const settleMany =
  (db: PluginDb["Service"]) =>
  (ends: ReadonlyArray<End>): Effect.Effect<ReadonlyMap<number, OperationProgress>, StorageFailure> => {
    const process = ends[0]?.claim.claimedBy ?? ""
    const ours = ends.filter(({ claim }) => claim.claimedBy === process)
    return Effect.map(
      db.query({
        operation: "OperationRows.settleMany",
        text: settleManyText,
        parameters: manyParameters(process, ours)
      }),
      ([columns]) => endedOf(ours, columns)
    )
  }

/** The end of an operation, as the port has it. */
export const makeSettle = (
  db: PluginDb["Service"]
): Effect.Effect<OperationRows["Service"]["settle"], never, Scope.Scope> =>
  Effect.map(
    makeSharedCalls({
      alone: settle(joinOrOwn(db)),
      together: settleMany(db),
      subjectOf: ({ claim }: End) => claim.rowId
    }),
    (call) => (claim, outcome, observation) => call({ claim, outcome, observation })
  )
