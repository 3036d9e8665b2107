/** A clone with the stores of operations on it, Projects to work on, and what admission told the outside. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { randomBytes, randomUUID } from "node:crypto"
import { type Asker, Caller } from "../../../src/domain/host/Accounts.ts"
import { Identifiers } from "../../../src/domain/Identifiers.ts"
import {
  AccountId,
  NodeId,
  ProcessIdentity,
  ProjectId,
  RequestKey,
  SandboxId,
  TenantId
} from "../../../src/domain/Identity.ts"
import {
  type Admitted,
  admitOperation,
  OperationAlerts,
  type RefusedStart
} from "../../../src/domain/operations/admission.ts"
import type { admitOperationStepwise } from "../../../src/domain/operations/admissionStepwise.ts"
import type { Workers } from "../../../src/domain/operations/claims.ts"
import type {
  Operation,
  OperationAction,
  OperationRequest,
  OperationState
} from "../../../src/domain/operations/Operation.ts"
import { OperationEvents } from "../../../src/domain/operations/OperationEvents.ts"
import { settleOperation } from "../../../src/domain/operations/settlement.ts"
import { PluginDb, type SqlRow } from "../../../src/domain/persistence/PluginDb.ts"
import { Processes } from "../../../src/domain/Processes.ts"
import { MachineRecipe } from "../../../src/domain/runtimes/Runtime.ts"
import * as HostAccounts from "../../../src/infra/postgres/HostAccounts.ts"
import * as HostProjects from "../../../src/infra/postgres/HostProjects.ts"
import * as OperationRows from "../../../src/infra/postgres/OperationRows.ts"
import * as OperationStore from "../../../src/infra/postgres/OperationStore.ts"
import * as RuntimeLog from "../../../src/infra/postgres/RuntimeLog.ts"
import * as RuntimeStore from "../../../src/infra/postgres/RuntimeStore.ts"
import { clone } from "../../support/clone.ts"

export const nodeHere = NodeId.make("00000000-0000-4000-8000-00000000000a")
export const bootHere = "00000000-0000-4000-8000-0000000000b0"

/** Identity of a daemon process of this node. */
export const daemon = (pid: number, given: Partial<ProcessIdentity> = {}): ProcessIdentity =>
  new ProcessIdentity({
    daemon: randomUUID(),
    node: nodeHere,
    bootId: bootHere,
    pid,
    startTicks: "77",
    ...given
  })

/** Alerts in the order in which they were raised. */
export class RaisedAlerts extends Context.Service<RaisedAlerts, Array<RefusedStart>>()(
  "holdfast/test/RaisedAlerts"
) {}

const alerts = Layer.effect(
  OperationAlerts,
  Effect.map(RaisedAlerts, (raised) => ({
    startRefused: (refused) => Effect.sync(() => void raised.push(refused)),
    recoveriesFail: () => Effect.void
  }))
)

const identifiers = Layer.succeed(Identifiers, {
  uuid: Effect.sync(() => randomUUID()),
  token: Effect.sync(() => randomBytes(32).toString("hex"))
})

/** Processes of a machine on which only the given pids live. */
export const machineWith = (current: ProcessIdentity, alive: ReadonlyArray<ProcessIdentity>) =>
  Layer.succeed(Processes, {
    current,
    liveness: (other) =>
      Effect.succeed(
        other.node !== current.node
          ? ("elsewhere" as const)
          : alive.some((each) => each.toString() === other.toString())
            ? ("alive" as const)
            : ("dead" as const)
      )
  })

export const self = daemon(1)

/** A worker with room for one operation at a time. */
export const oneByOne = <R>(take: Workers<R>["take"]): Workers<R> => ({ room: Effect.succeed(1), take })

/** The stores on whatever database is given. */
export const stores = Layer.mergeAll(
  RuntimeStore.layer,
  OperationStore.layer,
  OperationRows.layer,
  RuntimeLog.layer
).pipe(Layer.provideMerge(machineWith(self, [self])))

export const surroundings = Layer.mergeAll(
  HostProjects.layer,
  HostAccounts.layer,
  OperationEvents.layer,
  identifiers,
  alerts.pipe(Layer.provideMerge(Layer.sync(RaisedAlerts, () => [])))
)

/** A fresh clone with everything; one for each file, since every test makes its own Projects. */
export const fixture = Layer.mergeAll(stores, surroundings).pipe(Layer.provideMerge(clone(8)))

export const rows = (text: string, parameters: ReadonlyArray<unknown> = []) =>
  Effect.flatMap(PluginDb, (db) => db.query({ operation: "test", text, parameters }))

/** First column of the first row. */
export const value = (text: string, parameters: ReadonlyArray<unknown> = []) =>
  Effect.map(rows(text, parameters), ([row]) => Object.values(row as SqlRow)[0])

export interface Scene {
  readonly project: ProjectId
  readonly caller: Caller
  readonly viewer: Caller
}

/** An active Project of a tenant of its own, with an owner and somebody who may only look. */
export const newProject = Effect.gen(function* () {
  const tenant = TenantId.make(randomUUID())
  const account = (name: string) =>
    new Caller({
      account: AccountId.make(randomUUID()),
      tenant,
      name,
      administrator: false,
      initiator: "user"
    })
  const caller = account("owner")
  const viewer = account("viewer")
  // One statement: suites make hundreds of Projects.
  const id = yield* value(
    `with tenant as (insert into core.tenants (id, name) values ($1::uuid, $1::text)),
      account as (insert into core.accounts (id, tenant_id, name)
        values ($2::uuid, $1::uuid, 'owner'), ($3::uuid, $1::uuid, 'viewer')),
      project as (insert into core.projects (tenant_id, name) values ($1::uuid, 'p') returning id),
      membership as (insert into core.memberships
        select id, $2::uuid, 'owner' from project union all select id, $3::uuid, 'viewer' from project)
      select id from project`,
    [tenant, caller.account, viewer.account]
  )
  const project = ProjectId.make(Number(id))
  return { project, caller, viewer } satisfies Scene
})

export const recipeOf = (generation: number, sandbox: string = randomUUID()): MachineRecipe =>
  new MachineRecipe({
    supervisor: "auto",
    image: "host",
    cpuMillis: 1000,
    memoryBytes: 2 ** 30,
    processesMax: 512,
    node: nodeHere,
    sandbox: SandboxId.make(`sb-${sandbox}`),
    generation: generation as MachineRecipe["generation"],
    disks: ["/srv/disks/a"]
  })

/** Gives the Project a machine that was built already. */
export const provisioned = (project: ProjectId, observed = "running", generation = 1) =>
  Effect.gen(function* () {
    const recipe = recipeOf(generation)
    yield* rows(
      `with node as (insert into nodes (id, name) values ($3::uuid, 'here')
          on conflict (id) do update set last_seen_at = now())
        insert into runtimes (project_id, generation, node_id, sandbox_id, observed, recipe)
        values ($1::bigint, $2::bigint, $3::uuid, $4::text, $5::text, $6::text::jsonb)`,
      [project, generation, nodeHere, recipe.sandbox, observed, JSON.stringify({ ...recipe })]
    )
    return recipe
  })

export const ask = (project: ProjectId, given: Partial<OperationRequest> = {}): OperationRequest => ({
  project,
  action: "start",
  requestKey: RequestKey.make(randomUUID()),
  expectedGeneration: null,
  parameters: {},
  ...given
})

/** What is stored of a Project, without what differs by chance. */
export const stored = (project: ProjectId) =>
  Effect.gen(function* () {
    const runtime = yield* rows(
      "select generation::int, observed, desired from runtimes where project_id = $1::bigint",
      [project]
    )
    const operations = yield* rows(
      `select action, request_key, initiator, generation::int, parameters, state, error_code, error_text,
        claim_sequence::int, settled_at is not null as settled,
        exists (select from live_operations l where l.row_id = o.row_id) as live
        from runtime_operations o where project_id = $1::bigint order by row_id`,
      [project]
    )
    return { runtime, operations }
  })

/** Rows of the queue that are no live operation, and live operations that are not in it: none, ever. */
export const queueFaults = value(
  `select count(*)::int from (select row_id, project_id from live_operations) l
    full join (select row_id, project_id from runtime_operations where state in ('queued', 'claimed')) o
      using (row_id, project_id)
    where l.* is null or o.* is null`
)

/** Writes an operation's row in any state, as if it had come there. Its key is `first` unless told. */
export const receipt = Effect.fnUntraced(function* (
  project: ProjectId,
  given: {
    readonly state: OperationState
    readonly action?: OperationAction
    readonly initiator?: "user" | "agent" | "system"
    readonly key?: string
    readonly parameters?: object
    readonly newGeneration?: number
    readonly claimedBy?: string
  }
) {
  const live = given.state === "queued" || given.state === "claimed"
  const id = yield* value(
    `insert into runtime_operations (id, project_id, initiator, action, request_key, generation, parameters, state,
        claimed_by, claim_sequence, settled_at, new_recipe, error_code, superseded_by)
      values ($1::uuid, $2::bigint, $3::text, $4::text, $5::text, 1, $6::text::jsonb, $7::text, $8::text, 0,
        case when $9::boolean then null else now() end, $10::text::jsonb, case when $7::text = 'failed' then 'broken' end,
        case when $7::text = 'superseded' then 'system' end)
      returning row_id`,
    [
      randomUUID(),
      project,
      given.initiator ?? "user",
      given.action ?? "start",
      given.key ?? "first",
      JSON.stringify(given.parameters ?? {}),
      given.state,
      given.state === "claimed" ? (given.claimedBy ?? daemon(5).toString()) : null,
      live,
      given.newGeneration === undefined ? null : JSON.stringify({ ...recipeOf(given.newGeneration) })
    ]
  )
  if (live) {
    yield* rows("insert into live_operations (project_id, row_id) values ($1::bigint, $2::bigint)", [
      project,
      id
    ])
  }
  return Number(id)
})

/** A Project with a machine and a queued start. */
export const queued = Effect.gen(function* () {
  const scene = yield* newProject
  yield* provisioned(scene.project)
  const { operation } = yield* admitOperation(scene.caller, ask(scene.project))
  return { ...scene, operation }
})

/** A worker of the dispatcher, which may not fail. */
export const succeed = (operation: Operation) =>
  Effect.orDie(settleOperation(operation, { state: "succeeded" }))

/** Either form of admission. */
export type Admit = (
  asker: Asker,
  request: OperationRequest
) => Effect.Effect<
  Admitted,
  Effect.Error<ReturnType<typeof admitOperation | typeof admitOperationStepwise>>,
  Effect.Services<ReturnType<typeof admitOperation | typeof admitOperationStepwise>>
>
