/** The product's contenders of P7 and P8: its lease table and its repository claims, through its own layers. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { randomBytes, randomUUID } from "node:crypto"
import { Identifiers } from "../../src/domain/Identifiers.ts"
import { Generation, LeaseId, parseProcessIdentity, ProjectId, SandboxId } from "../../src/domain/Identity.ts"
import { HeldLeases } from "../../src/domain/leases/HeldLeases.ts"
import { ExecutionEvidence, Lease, labelOfCommand } from "../../src/domain/leases/Lease.ts"
import { LeaseAdmission } from "../../src/domain/leases/LeaseAdmission.ts"
import { LeaseStore } from "../../src/domain/leases/LeaseStore.ts"
import { claimRepository } from "../../src/domain/leases/repository.ts"
import { RepositoryClaim, RepositoryName } from "../../src/domain/leases/RepositoryClaim.ts"
import { RepositoryClaims } from "../../src/domain/leases/RepositoryClaims.ts"
import { PluginDb, PluginTx, type Query } from "../../src/domain/persistence/PluginDb.ts"
import { Processes } from "../../src/domain/Processes.ts"
import * as LeaseAdmissionAdapter from "../../src/infra/postgres/LeaseAdmission.ts"
import * as LeaseStoreAdapter from "../../src/infra/postgres/LeaseStore.ts"
import * as RepositoryClaimsAdapter from "../../src/infra/postgres/RepositoryClaims.ts"
import { pluginSchema } from "./admission.ts"
import { loopEffects, openConnections } from "./closedLoop.ts"
import type { Contender, Figures, Load } from "./definition.ts"
import { handleOn, sampledOut } from "./handles.ts"
import {
  heartbeatLeases,
  leaseContender,
  leaseIdOf,
  newTally,
  processOf,
  sandbox,
  type Tally,
  withLeases,
  wrongTally
} from "./leaseWork.ts"
import { plainClient, type PlainSettings } from "./plainPg.ts"

const label = labelOfCommand(["sh"])
const guest = SandboxId.make(sandbox)
const generation = Generation.make(1)
const repository = RepositoryName.make("app")

const leaseOf = (worker: number, id: string): Lease =>
  new Lease({
    id: LeaseId.make(id),
    project: ProjectId.make(worker + 1),
    generation,
    sandbox: guest,
    process: processOf(worker),
    label
  })

type Db = PluginDb["Service"]

/** A run over the product's handle, with a connection for each worker that is open before time counts. */
const onHandle = <A>(
  settings: PlainSettings,
  load: Load,
  use: (db: Db) => Effect.Effect<A, unknown>
): Effect.Effect<A, unknown> =>
  Effect.gen(function* () {
    const db = yield* handleOn(settings, pluginSchema, load.workers)
    yield* openConnections(load, (text) => db.query({ operation: "bench.open", text }))
    return yield* use(db)
  }).pipe(sampledOut, Effect.scoped)

const storeOn = (db: Db) => LeaseStoreAdapter.layer.pipe(Layer.provide(Layer.succeed(PluginDb, db)))
const claimsOn = (db: Db) => RepositoryClaimsAdapter.layer.pipe(Layer.provide(Layer.succeed(PluginDb, db)))

/** The admission's insert by itself: what is measured is its statement, not the transaction that it takes part in. */
const insertAlone = Effect.fnUntraced(function* (db: Db, lease: Lease) {
  let asked: Query | null = null
  const listening = {
    query: (query: Query) => {
      asked = query
      return Effect.succeed([])
    },
    afterCommit: () => Effect.void,
    readOnly: false
  }
  yield* LeaseAdmission.use((admission) => admission.insert(lease)).pipe(
    Effect.provideService(PluginTx, listening)
  )
  if (asked !== null) yield* db.query(asked)
})

/** A lease is inserted, renewed and settled by the statements of the product's adapters. */
const lifeOfLease = (db: Db, load: Load) =>
  Effect.gen(function* () {
    const store = yield* LeaseStore
    return yield* loopEffects(load, (worker) =>
      Effect.gen(function* () {
        const lease = leaseOf(worker, randomUUID())
        yield* insertAlone(db, lease)
        yield* store.renew(lease.process, [{ lease, cancel: "none", restorable: true }])
        yield* store.settle(lease)
      })
    )
  }).pipe(Effect.provide(Layer.merge(storeOn(db), LeaseAdmissionAdapter.layer)))

/** The p99 of the latest run alone, load by load: what the run beside an open transaction is compared with. */
const aloneMillis = new Map<number, number>()

export const productLease = (settings: PlainSettings): Contender =>
  leaseContender("LeaseStore", settings, (load) =>
    onHandle(settings, load, (db) => lifeOfLease(db, load)).pipe(
      Effect.tap((figures) =>
        Effect.sync(() => aloneMillis.set(load.workers, figures["p99Millis"] ?? Number.NaN))
      )
    )
  )

/** A transaction on history that holds every runtime's row and has not committed, for the time of the scope. */
const openHistory = (settings: PlainSettings) =>
  Effect.flatMap(plainClient({ ...settings, options: `-c search_path=${pluginSchema}` }), (client) =>
    Effect.acquireRelease(
      Effect.tryPromise(async () => {
        await client.query("begin")
        await client.query("update runtimes set refresh_epoch = refresh_epoch + 1")
        await client.query("insert into history_deletions (project_id) select project_id from runtimes")
      }),
      () => Effect.promise(() => client.query("rollback"))
    )
  )

/** The same beside that transaction. `p99Ratio` compares it with the latest run alone under the same load. */
export const besideHistory = (settings: PlainSettings): Contender =>
  leaseContender("LeaseStore, beside history", settings, (load) =>
    Effect.gen(function* () {
      yield* openHistory(settings)
      const figures = yield* onHandle(settings, load, (db) => lifeOfLease(db, load))
      const alone = aloneMillis.get(load.workers) ?? Number.NaN
      return { ...figures, p99Ratio: (figures["p99Millis"] ?? Number.NaN) / alone }
    }).pipe(Effect.scoped)
  )

/** All leases of a process by one statement; a lease counts, not a statement. */
export const productHeartbeats = (settings: PlainSettings): Contender =>
  leaseContender(
    "LeaseStore.renew, all at once",
    settings,
    withLeases(settings, (load) =>
      onHandle(settings, load, (db) =>
        Effect.gen(function* () {
          const store = yield* LeaseStore
          const kept = Array.from({ length: load.workers }, (_, worker) =>
            Array.from({ length: heartbeatLeases }, (__, lease) => ({
              lease: leaseOf(worker, leaseIdOf(worker, lease)),
              cancel: "none" as const,
              restorable: true
            }))
          )
          const figures = yield* loopEffects(load, (worker) =>
            Effect.gen(function* () {
              const outcomes = yield* store.renew(processOf(worker), kept[worker]!)
              const renewed = outcomes.filter(({ outcome }) => outcome === "renewed").length
              if (renewed === heartbeatLeases) return
              return yield* Effect.fail(new Error(`${renewed} of ${heartbeatLeases} leases were renewed`))
            })
          )
          return {
            ...figures,
            perSecond: (figures["perSecond"] ?? Number.NaN) * heartbeatLeases,
            clientCpuMicros: (figures["clientCpuMicros"] ?? Number.NaN) / heartbeatLeases
          }
        }).pipe(Effect.provide(storeOn(db)))
      )
    )
  )

const claimOf = (worker: number, project: number): RepositoryClaim =>
  new RepositoryClaim({
    id: LeaseId.make(randomUUID()),
    project: ProjectId.make(project),
    repository,
    generation,
    sandbox: guest,
    process: processOf(worker)
  })

/** A claim contender that counts what it wins and releases. */
const claimContender = (
  name: string,
  settings: PlainSettings,
  run: (db: Db, load: Load, tally: Tally) => Effect.Effect<Figures, unknown>
): Contender => {
  let tally = newTally()
  return leaseContender(
    name,
    settings,
    (load) =>
      Effect.suspend(() => {
        tally = newTally()
        return onHandle(settings, load, (db) => run(db, load, tally))
      }),
    () => wrongTally(tally)
  )
}

/** Claim and, where it was won, release: one statement each, through the port. */
export const productClaims = (settings: PlainSettings, projectOf: (worker: number) => number): Contender =>
  claimContender("RepositoryClaims", settings, (db, load, tally) =>
    Effect.gen(function* () {
      const claims = yield* RepositoryClaims
      const asked = new Map<number, RepositoryClaim>()
      return yield* loopEffects(load, (worker) =>
        Effect.gen(function* () {
          // As the program does it: who lost tries again with the claim that he has.
          const claim = asked.get(worker) ?? claimOf(worker, projectOf(worker))
          asked.set(worker, claim)
          if ((yield* claims.claim(claim))._tag !== "Won") return
          asked.delete(worker)
          tally.won += 1
          if ((yield* claims.release(claim)) === "released") tally.released += 1
        })
      )
    }).pipe(Effect.provide(claimsOn(db)))
  )

const identifiers = Layer.succeed(Identifiers, {
  uuid: Effect.sync(() => randomUUID()),
  token: Effect.sync(() => randomBytes(32).toString("hex"))
})

const registerOf = Layer.fresh(HeldLeases.layer).pipe(
  Layer.provide(
    Layer.succeed(Processes, {
      current: parseProcessIdentity(processOf(0)),
      liveness: () => Effect.succeed("alive" as const)
    })
  )
)

const ended = Option.some(ExecutionEvidence.cases.Exited.make({ ended: "exited" }))

/** The program around the port: register, handle, scope and evidence. */
export const productProgram = (settings: PlainSettings, projectOf: (worker: number) => number): Contender =>
  claimContender("claimRepository", settings, (db, load, tally) =>
    loopEffects(load, (worker) =>
      Effect.gen(function* () {
        const handle = yield* claimRepository({
          project: ProjectId.make(projectOf(worker)),
          repository,
          generation,
          sandbox: guest,
          waitMillis: 0
        })
        tally.won += 1
        if ((yield* handle.finalize(ended)) === "released") tally.released += 1
      }).pipe(Effect.scoped)
    ).pipe(Effect.provide(Layer.mergeAll(claimsOn(db), identifiers, registerOf)))
  )
