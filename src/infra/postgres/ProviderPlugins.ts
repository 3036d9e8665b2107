/** Adapter of the installed provider plugins, in schema `core`: one row a plugin key, which keeps its id. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { providerPluginsMax } from "../../domain/Bounds.ts"
import { PluginDb, type SqlRow } from "../../domain/persistence/PluginDb.ts"
import { ProviderManifest, ProviderPlugin } from "../../domain/providers/ProviderPlugin.ts"
import { ProviderPlugins } from "../../domain/providers/ProviderPlugins.ts"
import { jsonText, runner } from "./leaseRows.ts"
import { firstOf } from "./rows.ts"

const decodeManifest = Schema.decodeUnknownSync(ProviderManifest)

const pluginOf = (row: SqlRow): ProviderPlugin =>
  new ProviderPlugin({
    id: row["id"] as ProviderPlugin["id"],
    pluginKey: row["plugin_key"] as string,
    packageName: row["package_name"] as string,
    version: row["version"] as string,
    apiVersion: Number(row["api_version"]),
    manifest: decodeManifest(row["manifest_json"]),
    status: row["status"] as ProviderPlugin["status"],
    installOrder: Number(row["install_order"])
  })

/** Without an order of its own a new plugin comes after those that are there. */
const installText = `insert into core.provider_plugins
    (plugin_key, package_name, version, api_version, categories, manifest_json, status, install_order)
  values ($1::text, $2::text, $3::text, $4::int, $5::text::jsonb, $6::text::jsonb, $7::text,
    coalesce($8::int, (select coalesce(max(install_order) + 1, 0) from core.provider_plugins)))
  on conflict (plugin_key) do update
    set package_name = excluded.package_name, version = excluded.version, api_version = excluded.api_version,
      categories = excluded.categories, manifest_json = excluded.manifest_json, status = excluded.status,
      install_order = coalesce($8::int, provider_plugins.install_order), updated_at = now()
  returning *`

const statusText = `update core.provider_plugins set status = $2::text, updated_at = now()
  where id = $1::uuid returning id`

/** Installed provider plugins. Nothing refers to their rows by a foreign key. */
export const layer: Layer.Layer<ProviderPlugins, never, PluginDb> = Layer.effect(
  ProviderPlugins,
  Effect.gen(function* () {
    const run = runner(yield* PluginDb, "ProviderPlugins")
    return ProviderPlugins.of({
      install: ({ installOrder, manifest, packageName, status }) =>
        Effect.map(
          run("install", installText, [
            manifest.id,
            packageName,
            manifest.version,
            manifest.apiVersion,
            JSON.stringify(manifest.categories ?? []),
            jsonText(manifest),
            status,
            installOrder ?? null
          ]),
          ([row]) => pluginOf(row ?? {})
        ),
      setStatus: (plugin, status) =>
        Effect.map(run("setStatus", statusText, [plugin, status]), (rows) => rows.length > 0),
      remove: (plugin) =>
        Effect.map(
          run("remove", "delete from core.provider_plugins where id = $1::uuid returning id", [plugin]),
          (rows) => rows.length > 0
        ),
      byId: (plugin) =>
        Effect.map(run("byId", "select * from core.provider_plugins where id = $1::uuid", [plugin]), (rows) =>
          firstOf(rows, pluginOf)
        ),
      all: Effect.suspend(() =>
        Effect.map(
          run(
            "all",
            `select * from core.provider_plugins order by install_order, plugin_key limit ${providerPluginsMax}`
          ),
          (rows) => rows.map(pluginOf)
        )
      )
    })
  })
)
