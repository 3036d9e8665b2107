/** Adapter of the host's Projects, in schema `core`. Alerts and audit lines keep their newest rows. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { alertRowsMax, auditRowsMax, projectListMax, tenantProjectsMax } from "../../domain/Bounds.ts"
import { AccessRefused, Caller } from "../../domain/host/Accounts.ts"
import {
  nameFault,
  Project,
  type ProjectLifecycle,
  ProjectNameRefused,
  ProjectNameTaken,
  ProjectsFull,
  ProjectStore
} from "../../domain/host/ProjectStore.ts"
import { canonicalId } from "../../domain/host/Routes.ts"
import { Identifiers } from "../../domain/Identifiers.ts"
import { AccountId, ProjectId, TenantId } from "../../domain/Identity.ts"
import { PluginDb, type SqlRow, type StorageFailure } from "../../domain/persistence/PluginDb.ts"
import { firstOf } from "./rows.ts"
import { tableFullState } from "./storageFailure.ts"

const localTenant = "local"
const localOperator = "operator"

const projectOf = (row: SqlRow): Project =>
  new Project({
    id: ProjectId.make(Number(row["id"])),
    name: row["name"] as string,
    lifecycle: row["lifecycle"] as ProjectLifecycle,
    createdAtMillis: (row["created_at"] as Date).getTime()
  })

/** Projects of the caller's tenant that it may see: all for an administrator, else those with a membership. */
const visible = `from core.projects p
  join core.accounts a on a.id = $1::uuid and a.tenant_id = p.tenant_id and not a.disabled
  where (a.administrator or exists (
    select from core.memberships m where m.project_id = p.id and m.account_id = a.id))`

const columns = "p.id, p.name, p.lifecycle, p.created_at"

/** One statement: both rows are there after it, whoever made them. */
const bootstrapText = `with tenant as (
    insert into core.tenants (id, name) values ($1::uuid, $3::text)
      on conflict (name) do update set name = excluded.name returning id),
  account as (
    insert into core.accounts (id, tenant_id, name, administrator) select $2::uuid, id, $4::text, true from tenant
      on conflict (tenant_id, name) do update set administrator = true, disabled = false returning id, tenant_id)
  select id, tenant_id from account`

/** No row when the account does not live in its tenant any more. */
const createText = `with project as (
    insert into core.projects (tenant_id, name)
      select a.tenant_id, $2::text from core.accounts a
      where a.id = $3::uuid and a.tenant_id = $1::uuid and not a.disabled
      returning id, name, lifecycle, created_at),
  membership as (
    insert into core.memberships (project_id, account_id, role) select id, $3::uuid, 'owner' from project)
  select * from project`

/** Inserts and keeps the newest rows: the identity of the newest row tells which are too old. */
const ring = (
  table: string,
  insert: string,
  rowsMax: number
): string => `with added as (${insert} returning id)
  delete from ${table} where id <= (select id from added) - ${rowsMax}`

const findByIdText = `select ${columns} ${visible} and p.id = $2::bigint`

const findByNameText = `select ${columns} ${visible} and p.name = $2::text`

const listText = `select ${columns} ${visible} and p.id > $2::bigint order by p.id limit $3::int`

const raiseAlertText = ring(
  "core.alerts",
  `insert into core.alerts (project_id, project_label, kind, message)
    values ($1::bigint, (select name from core.projects where id = $1::bigint), $2::text, $3::text)`,
  alertRowsMax
)

const auditText = ring(
  "core.audit_log",
  `insert into core.audit_log (account_id, actor, action, project_id, outcome)
    values ($1::uuid, $2::text, $3::text, $4::bigint, $5::text)`,
  auditRowsMax
)

type Run = (
  operation: string,
  text: string,
  parameters: ReadonlyArray<unknown>
) => Effect.Effect<ReadonlyArray<SqlRow>, StorageFailure>

const bootstrap = (run: Run, uuid: Effect.Effect<string>): ProjectStore["Service"]["bootstrap"] =>
  Effect.gen(function* () {
    const ids = [yield* uuid, yield* uuid]
    const [row] = yield* run("bootstrap", bootstrapText, [...ids, localTenant, localOperator])
    return new Caller({
      account: AccountId.make(row?.["id"] as string),
      tenant: TenantId.make(row?.["tenant_id"] as string),
      name: localOperator,
      administrator: true,
      initiator: "user"
    })
  })

const create = (run: Run): ProjectStore["Service"]["create"] =>
  Effect.fnUntraced(function* (caller, name) {
    const why = nameFault(name)
    if (why !== null) return yield* new ProjectNameRefused({ why })
    const [row] = yield* run("create", createText, [caller.tenant, name, caller.account]).pipe(
      Effect.mapError((failure) => {
        if (failure.fault === "unique") return new ProjectNameTaken({ name })
        return failure.state === tableFullState
          ? new ProjectsFull({ projectsMax: tenantProjectsMax })
          : failure
      })
    )
    if (row === undefined) return yield* new AccessRefused({ account: caller.account, project: null })
    return projectOf(row)
  })

export const layer: Layer.Layer<ProjectStore, never, PluginDb | Identifiers> = Layer.effect(
  ProjectStore,
  Effect.gen(function* () {
    const db = yield* PluginDb
    const { uuid } = yield* Identifiers
    const run: Run = (operation, text, parameters) =>
      db.query({ operation: `ProjectStore.${operation}`, text, parameters })
    return ProjectStore.of({
      bootstrap: bootstrap(run, uuid),
      create: create(run),
      find: (caller, reference) =>
        Effect.map(
          Option.match(canonicalId(reference), {
            onNone: () => run("findByName", findByNameText, [caller.account, reference]),
            onSome: (id) => run("findById", findByIdText, [caller.account, id])
          }),
          (rows) => firstOf(rows, projectOf)
        ),
      list: (caller, after) =>
        Effect.map(run("list", listText, [caller.account, after, projectListMax]), (rows) =>
          rows.map(projectOf)
        ),
      raiseAlert: ({ kind, message, project }) =>
        Effect.asVoid(run("raiseAlert", raiseAlertText, [project, kind, message])),
      audit: ({ account, action, actor, outcome, project }) =>
        Effect.asVoid(run("audit", auditText, [account, actor, action, project, outcome]))
    })
  })
)
