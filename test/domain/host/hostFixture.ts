/** The host on a clone: Projects and accounts to work on, and owners that take part in a deletion as they are told. */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import { type Participant, Participants } from "../../../src/domain/host/Participants.ts"
import { HostProjects } from "../../../src/domain/host/Projects.ts"
import { ProjectStore } from "../../../src/domain/host/ProjectStore.ts"
import { AccountId, type ProjectId, TenantId } from "../../../src/domain/Identity.ts"
import { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import * as Identifiers from "../../../src/infra/Identifiers.ts"
import * as DeletionStoreAdapter from "../../../src/infra/postgres/DeletionStore.ts"
import * as HostAccountsAdapter from "../../../src/infra/postgres/HostAccounts.ts"
import * as HostProjectsAdapter from "../../../src/infra/postgres/HostProjects.ts"
import * as ProjectStoreAdapter from "../../../src/infra/postgres/ProjectStore.ts"
import { clone, Clone } from "../../support/clone.ts"
import { type Faults, withFaults } from "../../support/faults.ts"

const stores = Layer.mergeAll(ProjectStoreAdapter.layer, DeletionStoreAdapter.layer).pipe(
  Layer.provideMerge(Identifiers.layer)
)

export const fixture = stores.pipe(
  Layer.provideMerge(Layer.mergeAll(HostAccountsAdapter.layer, HostProjectsAdapter.layer)),
  Layer.provideMerge(clone(6))
)

export const live = { excludeTestServices: true } as const

/** Runs the effect with stores every statement of which is a step. */
export const withFaultyStores = <A, E, R>(faults: Faults, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const db = yield* PluginDb
    const faulty = stores.pipe(Layer.provide(Layer.succeed(PluginDb, withFaults(db, faults))))
    return yield* Effect.provide(effect, faulty, { local: true })
  })

/** Holds whatever runs the statement of that name, once it has run. */
export const holdingAfter = (operation: string, held: Effect.Effect<void>): Faults => ({
  reached: [],
  struck: () => false,
  step: (name, effect) => (name === operation ? Effect.tap(effect, () => held) : effect)
})

let names = 0
const nameNext = (prefix: string): string => {
  names += 1
  return `${prefix}-${names}`
}

/** An active Project of the local operator's. */
export const newProject = Effect.gen(function* () {
  const projects = yield* ProjectStore
  const caller = yield* projects.bootstrap
  const { id, name } = yield* projects.create(caller, nameNext("project"))
  return { caller, project: id, name }
})

const insertAccount = (tenant: TenantId, administrator: boolean) =>
  Effect.gen(function* () {
    const { admin } = yield* Clone
    const account = AccountId.make(randomUUID())
    const name = nameNext("account")
    yield* admin("insert into core.accounts values ($1::uuid, $2::uuid, $3, $4)", [
      account,
      tenant,
      name,
      administrator
    ])
    return new Caller({ account, tenant, name, administrator, initiator: "user" })
  })

/** An account of the operator's tenant; a member of the Project when a role is given. */
export const newAccount = (given: { readonly project?: ProjectId; readonly role?: string } = {}) =>
  Effect.gen(function* () {
    const { tenant } = yield* (yield* ProjectStore).bootstrap
    const { admin } = yield* Clone
    const caller = yield* insertAccount(tenant, false)
    if (given.project !== undefined && given.role !== undefined) {
      yield* admin("insert into core.memberships values ($1::bigint, $2::uuid, $3)", [
        given.project,
        caller.account,
        given.role
      ])
    }
    return caller
  })

/** The administrator of another tenant. */
export const newStranger = Effect.gen(function* () {
  const { admin } = yield* Clone
  const tenant = TenantId.make(randomUUID())
  yield* admin("insert into core.tenants values ($1::uuid, $2)", [tenant, nameNext("tenant")])
  return yield* insertAccount(tenant, true)
})

export interface Owner extends Participant {
  /** Removals that were asked for. */
  readonly calls: Array<string>
  paths: ReadonlyArray<string>
  fails: "describe" | "remove" | null
}

/** A participant that owns the paths until it has removed them. */
export const makeOwner = (
  name: string,
  phase: Participant["phase"],
  paths: ReadonlyArray<string>,
  code = "guest_failure"
): Owner => {
  const failing = Effect.fail({ _tag: "Scripted", code, message: "it was told to fail" })
  const owner: Owner = {
    name,
    phase,
    calls: [],
    paths,
    fails: null,
    describe: () =>
      Effect.suspend(() =>
        owner.fails === "describe" ? failing : Effect.succeed({ paths: owner.paths, labels: [name] })
      ),
    remove: () =>
      Effect.suspend(() => {
        owner.calls.push(name)
        if (owner.fails === "remove") return failing
        owner.paths = []
        return Effect.succeed({ paths, proofs: [`${name} is gone`] })
      })
  }
  return owner
}

export const twoOwners = () => ({
  storage: makeOwner("plugin:sandbox", "storage", ["/disks/1", "/runtime/1"]),
  service: makeOwner("plugin:sites", "service", ["/sites/1"])
})

/** Runs the effect in a host in which these owners are registered, in this order. */
export const withOwners = <A, E, R>(owners: ReadonlyArray<Participant>, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const participants = yield* Participants
    yield* Effect.forEach(owners, participants.register, { discard: true })
    return yield* effect
  }).pipe(Effect.provide(Participants.layer, { local: true }))

/** Lifecycle of the Project, or null when it is gone. */
export const lifecycleOf = (project: ProjectId) =>
  Effect.flatMap(Clone, ({ admin }) =>
    Effect.map(
      admin("select lifecycle from core.projects where id = $1::bigint", [project]),
      ([row]) => row?.["lifecycle"] ?? null
    )
  )

/** A plugin's transaction that holds the active Project until `held` is over. */
export const requireActive = (project: ProjectId, held: Effect.Effect<void> = Effect.void) =>
  Effect.gen(function* () {
    const db = yield* PluginDb
    const projects = yield* HostProjects
    return yield* db.transaction("test.write", Effect.andThen(projects.requireActive(project), held))
  })
