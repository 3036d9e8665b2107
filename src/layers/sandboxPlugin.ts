/**
 * The plugin of the persistent runtime, as the host loads it: manifest, migration, and what it offers. Its removal
 * participant closes over the services of the daemon, so the host calls it without knowing them. Source: SP-DB-01,
 * SP-DEL-01.
 */
import * as Effect from "effect/Effect"
import type { Plugin } from "../domain/host/PluginManifest.ts"
import { PluginManifest } from "../domain/host/PluginManifest.ts"
import { describeProjectRemoval } from "../domain/removal/inspection.ts"
import { removeProject } from "../domain/removal/removal.ts"
import { storageParticipant } from "../domain/removal/RemovalPlan.ts"
import {
  environmentDeclarations,
  type EnvironmentNeeds,
  environmentRoutes
} from "../infra/http/environmentRoutes.ts"
import { runMigrations } from "../infra/postgres/migrate.ts"
import { pluginMigrations } from "../infra/postgres/migrations/0021_baseline.ts"

/** The schema that the host hands to the plugin unless it is told otherwise. */
export const pluginSchema = "plugin_sandbox"

export const manifest = new PluginManifest({
  name: "sandbox",
  version: "0.1.0",
  schema: pluginSchema,
  provides: { projectRemoval: "storage" },
  routes: environmentDeclarations
})

/** The canonical migration entry point: takes the handle alone. Source: SP-DB-01. */
export const migrate = runMigrations({ migrations: pluginMigrations })

type Needs =
  | Effect.Services<ReturnType<typeof describeProjectRemoval | typeof removeProject>>
  | EnvironmentNeeds

/** A failure that carries no code of its own is the storage's. */
const coded = (error: { readonly _tag: string; readonly message: string }) => ({
  _tag: error._tag,
  code: "code" in error && typeof error.code === "string" ? error.code : "storage_failure",
  message: error.message
})

/** What the plugin offers over the services in context; its loops are started by `startReconciliation`. */
export const makePlugin = (
  startReconciliation: Effect.Effect<void>
): Plugin<Effect.Error<typeof migrate>, never, Needs> => ({
  manifest,
  migrate,
  register: Effect.map(Effect.all([Effect.context<Needs>(), environmentRoutes]), ([context, routes]) => ({
    controls: [],
    routes,
    removal: {
      name: storageParticipant,
      phase: "storage",
      describe: (project) =>
        describeProjectRemoval(project).pipe(Effect.mapError(coded), Effect.provideContext(context)),
      remove: (project) => removeProject(project).pipe(Effect.mapError(coded), Effect.provideContext(context))
    },
    startReconciliation
  }))
})
