/**
 * The stage of P3 and its yardstick: an operation is asked for, claimed and settled, three calls and three commits. The
 * ceiling makes the same three calls of the product's functions and looks at nothing but what the next call needs.
 */
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { receiptsKeptMin, receiptsTrimmedMax } from "../../src/domain/Bounds.ts"
import { NodeId, ProcessIdentity, ProjectId } from "../../src/domain/Identity.ts"
import { lockKey } from "../../src/infra/postgres/locks.ts"
import { callOf, node } from "./admissionWork.ts"
import { loopPromises } from "./closedLoop.ts"
import { counted } from "./counted.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { latencyFigures, paced } from "./dispatchWork.ts"
import {
  type PlainClient,
  type PlainResult,
  type PlainSettings,
  plainClients,
  runPlainly
} from "./plainPg.ts"
import { percentile } from "./statistics.ts"

export const claimant = new ProcessIdentity({
  daemon: randomUUID(),
  node: NodeId.make(node),
  bootId: randomUUID(),
  pid: 1,
  startTicks: "1"
})

/** Projects that take turns: by the time that one comes round again, its last operation has long ended. */
export const cycleProjects = 1_000

/** As many settled receipts a Project as are kept, so that every settlement has one to trim. */
const receiptsBefore = `insert into runtime_operations
    (id, project_id, initiator, action, request_key, generation, parameters, state, claim_sequence, settled_at)
  select gen_random_uuid(), project, 'user', 'start', 'before-' || number, 1, '{}', 'succeeded', 1, now()
  from generate_series(1, ${receiptsKeptMin}) number, generate_series(1, ${cycleProjects}) project`

/** What every run begins with. */
export const freshReceipts: ReadonlyArray<string> = [
  "truncate runtime_operations, live_operations",
  receiptsBefore,
  "vacuum analyze runtime_operations"
]

/** Checks that every cycle of a run is there or was trimmed, and that each Project has as many receipts as are kept. */
export const cycleContender = (
  name: string,
  settings: PlainSettings,
  run: (load: Load) => Effect.Effect<Figures, unknown>
): Contender =>
  counted(name, run, (all) =>
    Effect.gen(function* () {
      const { rows } = yield* runPlainly(settings, [
        `select count(*) filter (where state <> 'succeeded')::int as others,
                count(*) filter (where request_key like 'key-%')::int as cycles,
                (select count(*) from live_operations)::int as live,
                (select count(*) from (select from runtime_operations group by project_id
                  having count(*) <> ${receiptsKeptMin}) untrimmed)::int as untrimmed
           from runtime_operations`
      ])
      yield* runPlainly(settings, freshReceipts)
      const { cycles, live, others, untrimmed } = rows[0] ?? {}
      return cycles === Math.min(all, cycleProjects * receiptsKeptMin) &&
        [live, others, untrimmed].every((count) => count === 0)
        ? []
        : [
            `${all} cycles left ${cycles} of their receipts, ${others} that have not succeeded, ${live} live ones and ${untrimmed} Projects that are not trimmed`
          ]
    })
  )

const claimText = `select row_id, claimed_by, claim_sequence, project_id
  from claim_operations($1::text, '${node}'::uuid, $2::bigint, 1, 'superseded', 'superseded', 'superseded', 'superseded')`
const settleText = `select row_id from settle_operation($1::bigint, $2::text, $3::bigint, $4::bigint, 'succeeded', null,
  null, null, null, null, null, ${receiptsKeptMin}, ${receiptsTrimmedMax}, $5::bigint)`

/** A claimant as long as the product's. */
const written = claimant.toString()

const enqueueCall = (turn: number) => ({
  name: "enqueue",
  text: callOf("$1", "$2", "$3"),
  values: [randomUUID(), 1 + (turn % cycleProjects), `key-${turn}`]
})

const settleCall = (claimed: PlainResult["rows"][number]) => ({
  name: "settle",
  text: settleText,
  values: [
    claimed["row_id"],
    claimed["claimed_by"],
    claimed["claim_sequence"],
    claimed["project_id"],
    lockKey("receipts", ProjectId.make(Number(claimed["project_id"])))
  ]
})

/** P5's yardstick: the time of the two calls one after another, as the sum of their middles. */
export const plainDispatch = (settings: PlainSettings): Contender =>
  cycleContender("pg, enqueue and claim", settings, (load) =>
    Effect.scoped(
      Effect.gen(function* () {
        const [asker, claimer] = (yield* plainClients(settings, 2)) as [PlainClient, PlainClient]
        const enqueued: Array<number> = []
        const claimedIn: Array<number> = []
        let turn = 0
        const once = Effect.promise(async () => {
          turn += 1
          const begun = performance.now()
          await asker.query(enqueueCall(turn))
          const between = performance.now()
          const { rows } = await claimer.query({ name: "claim", text: claimText, values: [written, 0] })
          const ended = performance.now()
          enqueued.push(between - begun)
          claimedIn.push(ended - between)
          await asker.query(settleCall(rows[0]!))
          return ended - begun
        })
        const { all, millis } = yield* paced(load, once)
        const p50Millis = percentile(enqueued, 0.5) + percentile(claimedIn, 0.5)
        return { ...latencyFigures(millis, all), p50Millis }
      })
    )
  )

/** The ceiling: plain `pg`, three prepared calls, with the lower bound of the queue that a claim may begin at. */
export const plainCycle = (settings: PlainSettings): Contender =>
  cycleContender("pg, three calls", settings, (load) =>
    Effect.scoped(
      Effect.gen(function* () {
        const clients = yield* plainClients(settings, load.workers)
        let turn = 0
        let newest = 0
        return yield* loopPromises(load, async (worker) => {
          const client = clients[worker]!
          turn += 1
          await client.query(enqueueCall(turn))
          const from = Math.max(0, newest - 4 * load.workers)
          // Another worker may have this one's operation, and his own may not be seen yet.
          let claimed: PlainResult["rows"][number] | undefined
          for (let start = from; claimed === undefined; start = 0) {
            const { rows } = await client.query({ name: "claim", text: claimText, values: [written, start] })
            claimed = rows[0]
          }
          newest = Math.max(newest, Number(claimed["row_id"]))
          await client.query(settleCall(claimed))
        })
      })
    )
  )
