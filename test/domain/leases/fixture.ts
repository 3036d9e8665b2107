/**
 * What the tests of leases, sampling and history share: a clone with one runtime, and processes that hold leases on
 * it. Two processes are two registers with identities of their own over the same database.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import { randomUUID } from "node:crypto"
import { AbsenceEvidence, AbsenceProof } from "../../../src/domain/guests/AbsenceProof.ts"
import { GuestSpec } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import { Identifiers } from "../../../src/domain/Identifiers.ts"
import {
  AccountId,
  Generation,
  NodeId,
  ProcessIdentity,
  type ProjectId,
  SandboxId,
  TenantId
} from "../../../src/domain/Identity.ts"
import { admitExecution } from "../../../src/domain/leases/execution.ts"
import { HeldLeases } from "../../../src/domain/leases/HeldLeases.ts"
import { ExecutionEvidence, labelOfCommand } from "../../../src/domain/leases/Lease.ts"
import { type InsideTransaction, PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { type Liveness, Processes } from "../../../src/domain/Processes.ts"
import { SampleBatches } from "../../../src/domain/sampling/SampleBatches.ts"
import { makeScriptedState, type ScriptedState } from "../../../src/infra/guests/scriptedState.ts"
import { layerScripted } from "../../../src/infra/guests/scriptedSupervisor.ts"
import * as PostgresHostAccounts from "../../../src/infra/postgres/HostAccounts.ts"
import * as PostgresHostProjects from "../../../src/infra/postgres/HostProjects.ts"
import * as PostgresHistoryStore from "../../../src/infra/postgres/HistoryStore.ts"
import * as PostgresLeaseAdmission from "../../../src/infra/postgres/LeaseAdmission.ts"
import * as PostgresLeaseStore from "../../../src/infra/postgres/LeaseStore.ts"
import * as PostgresRepositoryClaims from "../../../src/infra/postgres/RepositoryClaims.ts"
import * as PostgresSampleStore from "../../../src/infra/postgres/SampleStore.ts"
import { clone } from "../../support/clone.ts"

export const node = NodeId.make("00000000-0000-4000-8000-00000000000a")

/** A process of the node. Two calls make two processes. */
export const someProcess = (pid = 4242): ProcessIdentity =>
  new ProcessIdentity({
    daemon: randomUUID(),
    node,
    bootId: "00000000-0000-4000-8000-00000000000b",
    pid,
    startTicks: "77"
  })

/** The machine's word about every process that is asked for. */
export const processesThat = (current: ProcessIdentity, liveness: Liveness) =>
  Layer.succeed(Processes, { current, liveness: () => Effect.succeed(liveness) })

/** What a pass of the daemon `current` needs to know of processes; it holds nothing. */
export const asSweeper = (liveness: Liveness, current = someProcess(1)) => {
  const processes = processesThat(current, liveness)
  return Effect.provide(Layer.fresh(HeldLeases.layer).pipe(Layer.provideMerge(processes)))
}

/** The register of one more process; programs that are given it speak for that process. */
export const asProcess = (identity: ProcessIdentity) => {
  const register = Layer.fresh(HeldLeases.layer).pipe(Layer.provide(processesThat(identity, "alive")))
  return Effect.map(Layer.build(register), (context) => Effect.provide(context))
}

const identifiers = Layer.succeed(Identifiers, {
  uuid: Effect.sync(() => randomUUID()),
  token: Effect.sync(() => randomUUID().replaceAll("-", "").repeat(2))
})

const adapters = SampleBatches.layer.pipe(
  Layer.provideMerge(
    Layer.mergeAll(
      PostgresLeaseStore.layer,
      PostgresRepositoryClaims.layer,
      PostgresSampleStore.layer,
      PostgresHistoryStore.layer,
      PostgresLeaseAdmission.layer
    )
  )
)

/** The guests of the clone's runtimes: none was ever started, unless a test does it. */
export class Guests extends Context.Service<Guests, ScriptedState>()(
  "holdfast/test/domain/leases/fixture/Guests"
) {}

const guests = Layer.unwrap(
  Effect.sync(() => {
    const state = makeScriptedState()
    return Layer.merge(Layer.succeed(Guests, state), layerScripted(state))
  })
)

type Db = PluginDb["Service"]

/** A clone of its own for each test, and every adapter of leases, sampling and history over `observe` of its handle. */
export const fixtureOver = (observe: (db: Db) => Db, connectionsMax = 6) => {
  const observed = Layer.effect(PluginDb, Effect.map(PluginDb, observe)).pipe(
    Layer.provideMerge(clone(connectionsMax))
  )
  return Layer.mergeAll(
    adapters.pipe(Layer.provideMerge(observed)),
    PostgresHostProjects.layer,
    PostgresHostAccounts.layer,
    identifiers,
    guests
  )
}

export const fixture = fixtureOver((db) => db)

/** Runs a test on a clone of its own. Its scope ends before the clone does, so that leases are closed on it. */
export const onClone = <A, E, R>(test: Effect.Effect<A, E, R>) =>
  test.pipe(Effect.scoped, Effect.provide(fixture))

/** A fixture that counts what reaches the root handle. */
export const countingFixture = () => {
  const calls = { queries: 0, transactions: 0 }
  const layer = fixtureOver((db) => ({
    ...db,
    query: (query) =>
      Effect.suspend(() => {
        calls.queries += 1
        return db.query(query)
      }),
    transaction: (operation, body) =>
      Effect.suspend(() => {
        calls.transactions += 1
        return db.transaction(operation, body)
      })
  }))
  return { calls, layer, reset: () => Object.assign(calls, { queries: 0, transactions: 0 }) }
}

export const sql = (text: string, parameters: ReadonlyArray<unknown> = []) =>
  PluginDb.use((db) => db.query({ operation: "test", text, parameters }))

/** The same inside an open transaction. */
export const sqlInside = (text: string, parameters: ReadonlyArray<unknown> = []) =>
  PluginTx.use((tx) => tx.query({ operation: "test", text, parameters }))

/** Opens a transaction, runs `body`, and keeps it open until `release`; the scope's end releases it too. */
export const heldTransaction = Effect.fnUntraced(function* <E, R>(
  body: Effect.Effect<unknown, E, R> & InsideTransaction<R>
) {
  const db = yield* PluginDb
  const opened = yield* Deferred.make<void>()
  const ending = yield* Deferred.make<void>()
  const holding: Effect.Effect<void, unknown, R> = Effect.gen(function* () {
    yield* body
    yield* Deferred.succeed(opened, undefined)
    yield* Deferred.await(ending)
  })
  const fiber = yield* db
    .transaction("test.held", holding as typeof holding & InsideTransaction<R>)
    .pipe(Effect.forkScoped)
  yield* Effect.raceFirst(Deferred.await(opened), Fiber.join(fiber))
  const release = Deferred.succeed(ending, undefined).pipe(Effect.andThen(Fiber.join(fiber)))
  return { release }
})

/** Waits until the fact holds, at most five seconds; then says what it waited for. */
export const eventually = <E, R>(what: string, fact: Effect.Effect<boolean, E, R>) =>
  fact.pipe(
    Effect.flatMap((holds) => (holds ? Effect.void : Effect.fail(`still waiting for ${what}` as const))),
    Effect.retry({ schedule: Schedule.spaced(10), times: 500 })
  )

/** A statement of this clone waits for a lock. */
export const someoneWaits = Effect.map(
  sql("select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"),
  (rows) => rows.length > 0
)

/** The real clocks, with the monotonic one ahead by a distance that the test steers. */
export const steeredClock = Effect.gen(function* () {
  const real = yield* Clock.Clock
  let aheadMillis = 0
  const nanos = () => real.monotonicTimeNanosUnsafe() + BigInt(aheadMillis) * 1_000_000n
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: () => real.currentTimeMillisUnsafe(),
    currentTimeMillis: real.currentTimeMillis,
    currentTimeNanosUnsafe: () => real.currentTimeNanosUnsafe(),
    currentTimeNanos: real.currentTimeNanos,
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) => real.sleep(duration)
  }
  return {
    provide: Effect.provideService(Clock.Clock, clock),
    advance: (millis: number) => Effect.sync(() => void (aheadMillis += millis))
  }
})

export interface SeededRuntime {
  readonly project: ProjectId
  readonly caller: Caller
  readonly sandbox: SandboxId
}

/** A tenant with a member, a Project, and its runtime observed running on the node in generation 1. */
export const seedRuntime = Effect.fnUntraced(function* (name = "project") {
  const tenant = TenantId.make(randomUUID())
  const account = AccountId.make(randomUUID())
  const sandbox = SandboxId.make(`sb-${randomUUID()}`)
  yield* sql("insert into core.tenants (id, name) values ($1::uuid, $2)", [tenant, tenant])
  yield* sql("insert into core.accounts (id, tenant_id, name) values ($1::uuid, $2::uuid, 'member')", [
    account,
    tenant
  ])
  const [row] = yield* sql(
    "insert into core.projects (tenant_id, name) values ($1::uuid, $2) returning id::int as id",
    [tenant, name]
  )
  const project = row?.["id"] as ProjectId
  yield* sql(
    "insert into core.memberships (project_id, account_id, role) values ($1::bigint, $2::uuid, 'member')",
    [project, account]
  )
  yield* sql("insert into nodes (id, name) values ($1::uuid, 'node') on conflict do nothing", [node])
  yield* sql(
    `insert into runtimes (project_id, node_id, sandbox_id, recipe, desired, observed)
      values ($1::bigint, $2::uuid, $3, '{}', 'running', 'running')`,
    [project, node, sandbox]
  )
  const caller = new Caller({ account, tenant, name: "member", administrator: false, initiator: "user" })
  return { project, caller, sandbox } satisfies SeededRuntime
})

/** Starts the guest of a runtime. */
export const startGuest = ({ sandbox }: SeededRuntime) =>
  GuestSupervisor.use((supervisor) =>
    supervisor.start(
      new GuestSpec({
        sandbox,
        generation: Generation.make(1),
        runId: "run",
        attemptId: "attempt",
        image: "host",
        argv: [],
        environment: {},
        cpuMillis: 100,
        memoryBytes: 1_024,
        processesMax: 64,
        disk: null
      })
    )
  )

export const admitShell = ({ caller, project }: SeededRuntime) =>
  admitExecution(caller, { project, label: labelOfCommand(["sh"]) })

/** The lease rows of the clone in a comparable form. */
export const leaseRows = sql(
  "select id::text, process, generation::int, label, cancel from execution_leases order by admitted_at, id"
)

/** The command ended by the supervisor's word. */
export const exited = Option.some(ExecutionEvidence.cases.Exited.make({ ended: "exited" }))

/** A proof that a guest is gone. */
export const goneGuest = (sandbox: SandboxId, generation = 1): AbsenceProof =>
  new AbsenceProof({
    sandbox,
    generation: Generation.make(generation),
    evidence: AbsenceEvidence.cases.NeverStarted.make({}),
    observedAtMillis: 0,
    exit: null
  })

/** Makes every statement of a kind on a table fail until `mend`. */
export const breakTable = Effect.fnUntraced(function* (table: string, event: "update" | "delete" | "insert") {
  yield* sql(`create or replace function broken() returns trigger language plpgsql as $$
    begin raise exception 'broken by the test'; end $$`)
  yield* sql(`create trigger broken before ${event} on ${table} for each row execute function broken()`)
  return { mend: sql(`drop trigger broken on ${table}`) }
})
