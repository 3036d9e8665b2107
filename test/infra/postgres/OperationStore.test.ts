import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import { AccountId, RequestKey } from "../../../src/domain/Identity.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { claimNext } from "../../../src/domain/operations/claims.ts"
import {
  OperationAction,
  OperationFlag,
  OperationState,
  settledStates
} from "../../../src/domain/operations/Operation.ts"
import { OperationRows, OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { settleOperation } from "../../../src/domain/operations/settlement.ts"
import { PluginDb, type Query } from "../../../src/domain/persistence/PluginDb.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import * as OperationStoreAdapter from "../../../src/infra/postgres/OperationStore.ts"
import {
  ask,
  fixture,
  newProject,
  nodeHere,
  provisioned,
  receipt,
  rows,
  self,
  value
} from "./operationsFixture.ts"

const live = { excludeTestServices: true } as const

/** The condition of a domain. */
const domain = (name: string) =>
  value("select pg_get_constraintdef(oid) from pg_constraint where contypid = $1::text::regtype", [name])

/** Quoted words of a CHECK, in the order in which the constraint names them. */
const words = (definition: unknown) =>
  [...String(definition).matchAll(/'([a-z_]+)'/g)].map(([, word]) => word)

const check = (like: string) =>
  value(
    `select pg_get_constraintdef(oid) from pg_constraint
      where conrelid = 'runtime_operations'::regclass and contype = 'c' and pg_get_constraintdef(oid) like $1::text`,
    [like]
  )

describe("OperationStore on its schema", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect("the schema's CHECKs name exactly the states, actions and flags of the domain", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(words(yield* domain("operation_state")), [...OperationState.literals])
        assert.deepStrictEqual(words(yield* domain("operation_action")), [...OperationAction.literals])
        assert.deepStrictEqual(words(yield* check("%settled_at IS NOT NULL%")), [...settledStates])
        assert.deepStrictEqual(words(yield* check("%claimed_by IS NOT NULL%")), ["claimed"])
        const flags = /\{(.*)\}/.exec(String(yield* domain("operation_flags")))?.[1]
        assert.strictEqual(flags, OperationFlag.literals.join(","))
      })
    )

    it.effect("SP-ADM-09 the schema itself refuses a second live operation of a Project", () =>
      Effect.gen(function* () {
        const { project } = yield* newProject
        yield* receipt(project, { state: "claimed" })
        const refused = yield* Effect.flip(receipt(project, { state: "queued", key: "second" }))
        assert.deepInclude(refused, { fault: "unique", constraint: "live_operations_pkey" })
        yield* rows("delete from live_operations where project_id = $1::bigint", [project])
      })
    )

    it.effect("SP-OPS-01 receipts are read newest first, of a Project and of an account, page by page", () =>
      Effect.gen(function* () {
        const store = yield* OperationStore
        const { project, caller } = yield* newProject
        yield* provisioned(project)
        const asked: Array<number> = []
        for (let n = 0; n < 5; n += 1) {
          const { operation } = yield* admitOperation(caller, ask(project, { action: "restart" }))
          asked.unshift(operation.rowId)
          yield* settleOperation(Option.getOrThrow(yield* claimNext(self)), { state: "succeeded" })
        }
        const first = yield* store.newestOfProject(project, { limit: 3 })
        const rest = yield* store.newestOfProject(project, { limit: 3, beforeRow: first.at(-1)?.rowId ?? 0 })
        assert.deepStrictEqual(
          [...first, ...rest].map(({ rowId }) => rowId),
          asked
        )
        const ofAccount = yield* store.newestOfAccount(caller.account, { limit: 10 })
        assert.deepStrictEqual(
          ofAccount.map(({ rowId }) => rowId),
          asked
        )
        const own = yield* admitOperation("system", ask(project, { action: "restart" }))
        const overview = yield* store.overview(project, 4)
        assert.strictEqual(Option.getOrThrow(overview.live).id, own.operation.id)
        assert.strictEqual(Option.getOrThrow(overview.runtime).project, project)
        assert.deepStrictEqual(
          overview.newest.map(({ rowId }) => rowId),
          [own.operation.rowId, ...asked.slice(0, 3)]
        )
        assert.strictEqual((yield* store.newestOfAccount(caller.account, { limit: 10 })).length, 5)
        yield* settleOperation(Option.getOrThrow(yield* claimNext(self)), { state: "succeeded" })
      })
    )

    it.effect("an overview of a Project without a runtime provisions nothing", () =>
      Effect.gen(function* () {
        const store = yield* OperationStore
        const { project } = yield* newProject
        assert.deepStrictEqual(yield* store.overview(project, 5), {
          runtime: Option.none(),
          live: Option.none(),
          newest: []
        })
        assert.strictEqual(
          yield* value("select count(*)::int from runtimes where project_id = $1::bigint", [project]),
          0
        )
      })
    )

    it.effect("SP-TX-04 bound reads lock the receipt and the live operation, read-only ones do not", () =>
      Effect.gen(function* () {
        const { project } = yield* newProject
        const free = (row: number) =>
          Effect.map(
            rows("select 1 from runtime_operations where row_id = $1::bigint for update skip locked", [row]),
            (found) => found.length === 1
          )
        const key = RequestKey.make("first")
        const done = yield* receipt(project, { state: "failed" })
        const queued = yield* receipt(project, { state: "queued", key: "live" })
        const store = yield* RuntimeStore
        const operations = yield* OperationRows
        const context = yield* Effect.context<PluginDb>()
        // Asked on another connection, in a fiber that has no transaction.
        const outside = (row: number) => Effect.promise(() => Effect.runPromiseWith(context)(free(row)))
        yield* store.transaction("test", () =>
          Effect.gen(function* () {
            yield* operations.byKey(project, key)
            assert.deepStrictEqual([yield* outside(done), yield* outside(queued)], [false, true])
            yield* operations.live(project)
            assert.isFalse(yield* outside(queued))
          })
        )
        yield* store.snapshot("test", () =>
          Effect.gen(function* () {
            assert.isTrue(Option.isSome(yield* operations.byKey(project, key)))
            assert.isTrue(Option.isSome(yield* operations.live(project)))
            assert.deepStrictEqual([yield* outside(done), yield* outside(queued)], [true, true])
          })
        )
        yield* rows("delete from live_operations where project_id = $1::bigint", [project])
        yield* rows("delete from runtime_operations where project_id = $1::bigint", [project])
      })
    )
  })

  layer(fixture, live)("walks at 100,000 rows", (it) => {
    it.effect(
      "SP-OPS-01 no walk of recovery, dock or history sorts or scans a table",
      () =>
        Effect.gen(function* () {
          const account = randomUUID()
          yield* rows(
            `insert into runtime_operations
              (id, project_id, account_id, initiator, action, request_key, generation, state, settled_at)
              select gen_random_uuid(), 1 + n % 2000, case when n % 50 = 0 then $1::uuid else gen_random_uuid() end, 'user',
                'start', 'key-' || n, 1, 'succeeded', now() from generate_series(1, 100000) n`,
            [account]
          )
          yield* rows(
            `with live as (
              insert into runtime_operations (id, project_id, initiator, action, request_key, generation, state, claimed_by)
                select gen_random_uuid(), 10000 + n, 'user', 'start', 'live', 1,
                  case when n % 2 = 0 then 'claimed' else 'queued' end, case when n % 2 = 0 then 'x' end
                  from generate_series(1, 500) n returning project_id, row_id
            ) insert into live_operations (project_id, row_id) select project_id, row_id from live`
          )
          yield* rows("analyze")
          const plans = yield* recordedPlans(AccountId.make(account))
          for (const { operation, plan } of plans) {
            // The trim reads one Project's few old receipts; their order may be made by a sort.
            const forbidden = operation === "settle_operation.trim" ? /Seq Scan/ : /Seq Scan|Sort|Hash/
            assert.notMatch(plan, forbidden, `${operation}\n${plan}`)
          }
          assert.deepStrictEqual(
            plans.map(({ operation }) => operation),
            [
              "OperationStore.claimed",
              "OperationStore.newestOfProject",
              "OperationStore.newestOfAccount",
              "OperationRows.live",
              "claim_operations",
              "claim_operations.below",
              "settle_operation.boundary",
              "settle_operation.trim"
            ]
          )
        }),
      30_000
    )
  })
})

/** Plans of the walks: what the adapters really send, and the statements inside the functions, cut from their source. */
const recordedPlans = Effect.fnUntraced(function* (account: AccountId) {
  const db = yield* PluginDb
  const sent: Array<Query> = []
  const recording = PluginDb.of({
    ...db,
    query: (query) =>
      Effect.andThen(
        Effect.sync(() => void sent.push(query)),
        db.query(query)
      )
  } as PluginDb["Service"])
  const project = (yield* newProject).project
  yield* Effect.gen(function* () {
    const store = yield* OperationStore
    yield* store.claimed({ node: nodeHere, afterRow: 0, limit: 100 })
    yield* store.newestOfProject(project, { limit: 20 })
    yield* store.newestOfAccount(account, { limit: 20 })
  }).pipe(
    Effect.provide(Layer.fresh(OperationStoreAdapter.layer)),
    Effect.provideService(PluginDb, recording)
  )
  sent.push({
    operation: "OperationRows.live",
    text: `select o.* from live_operations l join runtime_operations o on o.row_id = l.row_id
      where l.project_id = $1::bigint and o.state in ('queued', 'claimed') for update of o`,
    parameters: [project]
  })
  const bodies = new Map(
    (yield* rows(
      "select proname, prosrc from pg_proc where proname in ('claim_operations', 'settle_operation')"
    )).map((row) => [String(row.proname), String(row.prosrc)])
  )
  const cut = (name: string, pattern: RegExp) => {
    const found = pattern.exec(bodies.get(name) ?? "")?.[1]
    if (found === undefined) throw new Error(`${name} has no such statement any more`)
    return found
      .replace(/into (candidate|boundary)/, "")
      .replaceAll("p_from", "1000")
      .replaceAll("p_max - cardinality(candidates)", "8")
      .replaceAll("p_max", "8")
      .replaceAll("p_node", `'${nodeHere}'::uuid`)
      .replaceAll("settled.project_id", "77")
      .replaceAll("boundary", "90000")
      .replaceAll("p_kept", "20")
      .replaceAll("p_trimmed", "128")
  }
  sent.push(
    {
      operation: "claim_operations",
      text: cut("claim_operations", /array\((select o\.row_id[\s\S]*?limit p_max)\);/)
    },
    {
      operation: "claim_operations.below",
      text: cut("claim_operations", /\|\| array\((select o\.row_id[\s\S]*?cardinality\(candidates\))\);/)
    },
    {
      operation: "settle_operation.boundary",
      text: cut("settle_operation", /(select row_id into boundary[\s\S]*?limit 1)/)
    },
    {
      operation: "settle_operation.trim",
      text: cut("settle_operation", /(select row_id from runtime_operations\s+where[\s\S]*?skip locked)/)
    }
  )
  return yield* Effect.forEach(sent, ({ operation, text, parameters = [] }) =>
    Effect.gen(function* () {
      const literal = (parameter: unknown) =>
        typeof parameter === "string" ? `'${parameter}'` : String(parameter)
      const plain = text.replace(/\$(\d+)/g, (_, place) => literal(parameters[Number(place) - 1]))
      const plan = (yield* rows(`explain ${plain}`)).map((row) => row["QUERY PLAN"]).join("\n")
      return { operation, plan }
    })
  )
})
