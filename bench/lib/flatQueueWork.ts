/**
 * P6: claims, ends and the recovery's read through the product, in tables of ever more receipts and beside a transaction
 * that keeps an old snapshot. Every Project has the receipts that are kept and a few older ones that owe a machine, so
 * that a table grows by Projects, as the product's does.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import { receiptsKeptMin, receiptsTrimmedMax, recoveryPageRowsMax } from "../../src/domain/Bounds.ts"
import { NodeId } from "../../src/domain/Identity.ts"
import { claimNext } from "../../src/domain/operations/claims.ts"
import { OperationStore } from "../../src/domain/operations/OperationStore.ts"
import { settleOperation } from "../../src/domain/operations/settlement.ts"
import { PluginDb } from "../../src/domain/persistence/PluginDb.ts"
import * as OperationRowsAdapter from "../../src/infra/postgres/OperationRows.ts"
import * as OperationStoreAdapter from "../../src/infra/postgres/OperationStore.ts"
import { pluginSchema, quiet } from "./admission.ts"
import { node } from "./admissionWork.ts"
import { claimant } from "./cycleWork.ts"
import type { Contender, Figures } from "./definition.ts"
import { handleOn, sampledOut } from "./handles.ts"
import { type PlainSettings, plainClient, runPlainly } from "./plainPg.ts"
import { median } from "./statistics.ts"

const owingEach = 5
export const receiptsEach = receiptsKeptMin + owingEach
/** Queued operations that a claim finds: it never has to look below its bound. */
const depth = 64
/** Claims and ends that one figure is the middle of. */
const cyclesTimed = 400
const cyclesBesideSnapshot = 20_000

/** Fills an empty schema with so many receipts: once, since every run leaves as many as it found. */
export const receiptRows = (receipts: number): ReadonlyArray<string> => [
  `insert into runtime_operations (id, project_id, account_id, initiator, action, request_key, generation, state,
      claim_sequence, settled_at, owed)
    select gen_random_uuid(), project, '${randomUUID()}', 'user', 'start', 'before-' || number, 1, 'succeeded', 1, now(),
      case when number <= ${owingEach} then '{sb/1}'::text[] else '{}' end
    from generate_series(1, ${receiptsEach}) number, generate_series(1, ${Math.round(receipts / receiptsEach)}) project`,
  "vacuum analyze runtime_operations"
]

/**
 * As many operations as a snapshot has to be beside, each claimed, ended and followed by another in transactions of its
 * own; who does it is nobody's figure, so the server does.
 */
const passText = (from: number, projects: number): string => `do $$ declare claimed runtime_operations; begin
  for number in ${from} .. ${from + cyclesBesideSnapshot - 1} loop
    select * into claimed from claim_operations('${claimant.toString()}', '${node}', 0, 1, 'x', 'x');
    commit;
    perform settle_operation(claimed.row_id, claimed.claimed_by, claimed.claim_sequence, claimed.project_id, 'succeeded',
      null, null, null, null, null, null, ${receiptsKeptMin}, ${receiptsTrimmedMax}, claimed.project_id);
    commit;
    with queued as (
      insert into runtime_operations (id, project_id, initiator, action, request_key, generation)
        select gen_random_uuid(), 1 + (number * 7919) % ${projects}, 'user', 'start', gen_random_uuid()::text, 1
        returning project_id, row_id
    ) insert into live_operations (project_id, row_id) select project_id, row_id from queued;
    commit;
  end loop;
end $$`

/** Before each run: no operation that another one left, and no traces of them. */
const freshQueue: ReadonlyArray<string> = [
  "delete from runtime_operations where state = 'queued'",
  "delete from live_operations",
  "vacuum analyze runtime_operations",
  "vacuum analyze live_operations"
]

const queueText = (from: number, count: number, projects: number): string => `with queued as (
    insert into runtime_operations (id, project_id, initiator, action, request_key, generation)
      select gen_random_uuid(), 1 + (number * 7919) % ${projects}, 'user', 'start', gen_random_uuid()::text, 1
      from generate_series(${from}, ${from + count - 1}) number returning project_id, row_id
  ) insert into live_operations (project_id, row_id) select project_id, row_id from queued`

type Ask = (text: string) => Effect.Effect<unknown>

/** A queue that is as deep after each cycle as before; answers how long the claims and the ends of a run took. */
const makeCycles = (ask: Ask, projects: number) =>
  Effect.gen(function* () {
    let next = 1
    const queue = (count: number) =>
      Effect.suspend(() => {
        const text = queueText(next, count, projects)
        next += count
        return ask(text)
      })
    yield* queue(depth)
    const pass = Effect.suspend(() => {
      const text = passText(next, projects)
      next += cyclesBesideSnapshot
      return Effect.andThen(ask("set synchronous_commit = off"), ask(text))
    })
    const run = (cycles: number) =>
      Effect.gen(function* () {
        const claims: Array<number> = []
        const ends: Array<number> = []
        for (let cycle = 0; cycle < cycles; cycle += 1) {
          const begun = performance.now()
          const claimed = Option.getOrThrow(yield* claimNext(claimant))
          const between = performance.now()
          yield* settleOperation(claimed, { state: "succeeded" })
          claims.push(between - begun)
          ends.push(performance.now() - between)
          yield* queue(1)
        }
        return { claimMillis: median(claims), settleMillis: median(ends) }
      })
    return { pass, run }
  })

const onStores = <A, E>(
  settings: PlainSettings,
  use: Effect.Effect<A, E, Layer.Success<typeof quiet> | Stores>
): Effect.Effect<A, unknown> =>
  Effect.gen(function* () {
    const db = yield* handleOn(settings, pluginSchema, 1)
    const stores = Layer.merge(OperationStoreAdapter.layer, OperationRowsAdapter.layer)
    return yield* Effect.provide(
      use,
      Layer.merge(stores.pipe(Layer.provide(Layer.succeed(PluginDb, db))), quiet)
    )
  }).pipe(sampledOut, Effect.scoped)

type Stores =
  | Layer.Success<typeof OperationStoreAdapter.layer>
  | Layer.Success<typeof OperationRowsAdapter.layer>

const recoveryMillis = Effect.gen(function* () {
  const store = yield* OperationStore
  const millis: Array<number> = []
  for (let read = 0; read < 100; read += 1) {
    const begun = performance.now()
    yield* store.claimed({ node: NodeId.make(node), afterRow: 0, limit: Math.min(100, recoveryPageRowsMax) })
    millis.push(performance.now() - begun)
  }
  return median(millis)
})

const faultsText = `select (select count(*) from live_operations)::int as live,
  count(*) filter (where state not in ('queued', 'succeeded'))::int as others,
  (select count(*) from (select from runtime_operations where owed = '{}' and settled_at is not null
    group by project_id having count(*) > ${receiptsKeptMin}) untrimmed)::int as untrimmed from runtime_operations`

/** Whether the queue is as deep as it was kept, and every Project trimmed to what is kept. */
export const queueFaultsOf = (row: Readonly<Record<string, unknown>>): ReadonlyArray<string> =>
  row["live"] === depth && row["others"] === 0 && row["untrimmed"] === 0
    ? []
    : [
        `${row["live"]} of ${depth} are queued, ${row["others"]} have not succeeded, ${row["untrimmed"]} Projects are not trimmed`
      ]

const check = (settings: PlainSettings): Contender["check"] =>
  Effect.map(runPlainly(settings, [faultsText]), ({ rows }) => queueFaultsOf(rows[0] ?? {}))

/** The schema that has so many receipts. */
type SettingsOf = (receipts: number) => PlainSettings

/** The same work at another size; `claimGrowth` and `settleGrowth` are against the smallest of the same round. */
export const flatQueue = (settingsOf: SettingsOf, smallest: number): Contender => {
  let last = smallest
  let base = { claimMillis: Number.NaN, settleMillis: Number.NaN }
  return {
    name: "claimNext, settleOperation",
    run: ({ workers: receipts }) =>
      Effect.gen(function* () {
        last = receipts
        const settings = settingsOf(receipts)
        yield* runPlainly(settings, freshQueue)
        const client = yield* plainClient(settings)
        const { run } = yield* makeCycles(
          (text) => Effect.promise(() => client.query(text)),
          Math.round(receipts / receiptsEach)
        )
        const [figures, recovery] = yield* onStores(
          settings,
          Effect.gen(function* () {
            yield* run(cyclesTimed / 4)
            return [yield* run(cyclesTimed), yield* recoveryMillis] as const
          })
        )
        if (receipts === smallest) base = figures
        return {
          ...figures,
          recoveryMillis: recovery,
          claimGrowth: figures.claimMillis / base.claimMillis,
          settleGrowth: figures.settleMillis / base.settleMillis
        } satisfies Figures
      }),
    check: Effect.suspend(() => check(settingsOf(last)))
  }
}

/** Claims before and after so many operations that an old snapshot keeps the traces of, in the smallest table alone. */
export const besideSnapshot = (settingsOf: SettingsOf, smallest: number): Contender => ({
  name: "beside an old snapshot",
  run: ({ workers: receipts }) =>
    Effect.gen(function* () {
      if (receipts !== smallest) return {} satisfies Figures
      const settings = settingsOf(receipts)
      yield* runPlainly(settings, freshQueue)
      const client = yield* plainClient(settings)
      const old = yield* plainClient(settings)
      const { pass, run } = yield* makeCycles(
        (text) => Effect.promise(() => client.query(text)),
        Math.round(receipts / receiptsEach)
      )
      return yield* onStores(
        settings,
        Effect.gen(function* () {
          yield* run(cyclesTimed / 4)
          const before = yield* run(cyclesTimed)
          yield* Effect.promise(async () => {
            await old.query("begin isolation level repeatable read")
            await old.query("select count(*) from live_operations")
          })
          yield* pass
          const after = yield* run(cyclesTimed)
          yield* Effect.promise(() => old.query("rollback"))
          return { ...after, snapshotGrowth: after.claimMillis / before.claimMillis } satisfies Figures
        })
      )
    }),
  check: check(settingsOf(smallest))
})
