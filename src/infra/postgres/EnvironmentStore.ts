/** Adapter of environments and of their bindings to tenants. Source: RL section 3.7. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { environmentsMax, groupedLeasesMax, groupedStatementsAtOnceMax } from "../../domain/Bounds.ts"
import type { Environment } from "../../domain/environments/Environment.ts"
import {
  EnvironmentAbsent,
  EnvironmentExists,
  EnvironmentsFull,
  EnvironmentStore
} from "../../domain/environments/EnvironmentStore.ts"
import type { EnvironmentId } from "../../domain/Identity.ts"
import { PluginDb, type StorageFailure } from "../../domain/persistence/PluginDb.ts"
import { environmentOf } from "./environmentRows.ts"
import { groupedCalls } from "./groupedCalls.ts"
import { jsonText, type Run, runner } from "./leaseRows.ts"
import { firstOf } from "./rows.ts"
import { tableFullState } from "./storageFailure.ts"

type Service = EnvironmentStore["Service"]
const refusalOf = (failure: StorageFailure): StorageFailure | EnvironmentExists =>
  failure.fault === "unique"
    ? new EnvironmentExists({ what: failure.constraint === "environments_local" ? "local" : "name" })
    : failure

const createText = `insert into environments (name, description, driver, config)
  values ($1::text, $2::text, $3::text, $4::text::jsonb) returning *`

const updateText = `update environments
  set name = coalesce($2::text, name), driver = coalesce($3::text, driver), config = coalesce($4::text::jsonb, config),
    status = coalesce($5::text, status), updated_at = now()
  where id = $1::uuid returning *`

/** Leases and managed bindings follow by their foreign keys; bindings of secrets are in another schema. */
const removeText = `with secrets as (delete from core.secret_bindings where target_id = $1::uuid)
  delete from environments where id = $1::uuid returning id`

const bindText = `insert into managed_resource_bindings (tenant_id, resource_key, resource_id, stock_version, stock_hash)
  select $1::uuid, $3::text, e.id, $4::int, $5::text from environments e where e.id = $2::uuid for key share
  on conflict (tenant_id, bundle_key, resource_kind, resource_key) do update
    set resource_id = excluded.resource_id, stock_version = excluded.stock_version, stock_hash = excluded.stock_hash
  returning resource_id`

/** Every acquisition asks for its environment: those that come together share the look. */
const getById = (run: Run): Service["getById"] =>
  groupedCalls<EnvironmentId, Option.Option<Environment>>({
    max: groupedLeasesMax,
    atOnce: groupedStatementsAtOnceMax,
    run: (environments) =>
      Effect.map(
        run("getById", "select * from environments where id = any ($1::uuid[])", [
          [...new Set(environments)]
        ]),
        (rows) => {
          const found = new Map(rows.map(environmentOf).map((environment) => [environment.id, environment]))
          return environments.map((id) => Option.fromNullishOr(found.get(id)))
        }
      )
  })

const create =
  (run: Run): Service["create"] =>
  ({ config, description, driver, name }) =>
    run("create", createText, [name, description ?? null, driver, jsonText(config)]).pipe(
      Effect.mapError((failure) =>
        failure.state === tableFullState ? new EnvironmentsFull() : refusalOf(failure)
      ),
      Effect.map(([row]) => environmentOf(row ?? {}))
    )

const update =
  (run: Run): Service["update"] =>
  (environment, { config, driver, name, status }) =>
    run("update", updateText, [
      environment,
      name ?? null,
      driver ?? null,
      jsonText(config ?? null),
      status ?? null
    ]).pipe(
      Effect.mapError(refusalOf),
      Effect.flatMap(([row]): Effect.Effect<Environment, EnvironmentAbsent> =>
        row === undefined
          ? Effect.fail(new EnvironmentAbsent({ environment }))
          : Effect.succeed(environmentOf(row))
      )
    )

const bindManagedResource =
  (run: Run): Service["bindManagedResource"] =>
  ({ environment, resourceKey, stockHash, stockVersion, tenant }) =>
    run("bindManagedResource", bindText, [tenant, environment, resourceKey, stockVersion, stockHash]).pipe(
      Effect.mapError((failure) => (failure.state === tableFullState ? new EnvironmentsFull() : failure)),
      Effect.flatMap(([row]): Effect.Effect<void, EnvironmentAbsent> =>
        row === undefined ? Effect.fail(new EnvironmentAbsent({ environment })) : Effect.void
      )
    )

/** Environments on the plugin's schema. */
export const layer: Layer.Layer<EnvironmentStore, never, PluginDb> = Layer.effect(
  EnvironmentStore,
  Effect.gen(function* () {
    const run = runner(yield* PluginDb, "EnvironmentStore")
    return EnvironmentStore.of({
      create: create(run),
      getById: getById(run),
      list: Effect.suspend(() =>
        Effect.map(run("list", `select * from environments order by name limit ${environmentsMax}`), (rows) =>
          rows.map(environmentOf)
        )
      ),
      update: update(run),
      remove: (environment) =>
        Effect.map(run("remove", removeText, [environment]), (rows) => rows.length > 0),
      removeIfDeletable: (environment) =>
        Effect.map(
          run("removeIfDeletable", "select * from remove_environment_if_deletable($1::uuid)", [environment]),
          (rows) => firstOf(rows, environmentOf)
        ),
      bindManagedResource: bindManagedResource(run)
    })
  })
)
