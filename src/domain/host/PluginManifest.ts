/**
 * What a plugin declares about itself, and what it offers once its schema is migrated. The host checks that the two
 * agree before it installs anything. Source: SP-DB-01, SP-DB-07, SP-DEL-01.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { PluginDb } from "../persistence/PluginDb.ts"
import type { Participant } from "./Participants.ts"
import { RouteMethod, RoutePattern, type RouteHandler } from "./Routes.ts"

/** A route that the plugin promises to register. Source: SP-HTTP-01. */
export const DeclaredRoute = Schema.Struct({ method: RouteMethod, pattern: RoutePattern })
export type DeclaredRoute = typeof DeclaredRoute.Type

export class PluginManifest extends Schema.Class<PluginManifest>("holdfast/PluginManifest")({
  name: Schema.String.check(Schema.isPattern(/^[a-z][a-z0-9-]{0,39}$/)),
  version: Schema.NonEmptyString,
  /** The schema that the host hands to the plugin; quoted by the host wherever it stands in SQL. */
  schema: Schema.NonEmptyString,
  provides: Schema.Struct({ projectRemoval: Schema.optionalKey(Schema.Literal("storage")) }),
  routes: Schema.Array(DeclaredRoute).pipe(Schema.withConstructorDefault(Effect.succeed([])))
}) {}

/** Something that the host installs by name, such as a control. */
export interface Registration {
  readonly name: string
  readonly install: Effect.Effect<void>
}

/** A declared route with what answers it. */
export interface OfferedRoute extends DeclaredRoute {
  readonly handler: RouteHandler
}

/** What a plugin offers. The host installs it in the order of the fields; the plugin cannot choose another one. */
export interface Offers {
  readonly controls: ReadonlyArray<Registration>
  readonly routes: ReadonlyArray<OfferedRoute>
  readonly removal: Participant | null
  /** Begins its loops; they end with the host. */
  readonly startReconciliation: Effect.Effect<void>
}

/** `migrate` takes the handle alone and needs no runtime context; `register` takes the migrated handle. */
export interface Plugin<ME extends PluginError, RE extends PluginError, R> {
  readonly manifest: PluginManifest
  readonly migrate: Effect.Effect<unknown, ME, PluginDb>
  readonly register: Effect.Effect<Offers, RE, PluginDb | R>
}

export interface PluginError {
  readonly _tag: string
  readonly code: string
  readonly message: string
}

/** The plugin was not loaded. Its schema is as it was, and nothing of it was installed. Source: SP-DB-02. */
export class PluginLoadFailed extends Schema.TaggedError<PluginLoadFailed>()("PluginLoadFailed", {
  plugin: Schema.String,
  version: Schema.String,
  stage: Schema.Literals(["migrate", "register", "manifest", "record"]),
  reason: Schema.String,
  why: Schema.String
}) {
  readonly code = "plugin_load_failed"
  override get message(): string {
    return `plugin ${this.plugin} ${this.version} was not loaded (${this.stage}): ${this.why}`
  }
}
