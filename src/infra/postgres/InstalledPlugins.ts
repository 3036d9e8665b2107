/** Adapter of the host's note of loaded plugins, in schema `core`: one row a plugin, rewritten at every loading. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { InstalledPlugins } from "../../domain/host/InstalledPlugins.ts"
import { PluginDb } from "../../domain/persistence/PluginDb.ts"

const recordText = `insert into core.plugins (name, version, schema_name, provides)
  values ($1::text, $2::text, $3::text, $4::text::jsonb)
  on conflict (name) do update set version = excluded.version, schema_name = excluded.schema_name,
    provides = excluded.provides, loaded_at = now()`

export const layer: Layer.Layer<InstalledPlugins, never, PluginDb> = Layer.effect(
  InstalledPlugins,
  Effect.map(PluginDb, (db) =>
    InstalledPlugins.of({
      record: ({ name, provides, schema, version }) =>
        Effect.asVoid(
          db.query({
            operation: "InstalledPlugins.record",
            text: recordText,
            parameters: [name, version, schema, JSON.stringify(provides)]
          })
        )
    })
  )
)
