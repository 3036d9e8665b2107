/**
 * Loading a plugin: its migration is awaited, then it registers on the migrated handle, then the host installs what
 * it offers, always in the same order. A failure before the last stage installs nothing. Source: SP-DB-01, SP-DB-02,
 * SP-DB-07.
 */
import * as Effect from "effect/Effect"
import { PluginDb } from "../persistence/PluginDb.ts"
import { InstalledPlugins } from "./InstalledPlugins.ts"
import { Participants } from "./Participants.ts"
import {
  type DeclaredRoute,
  type Offers,
  type Plugin,
  type PluginError,
  PluginLoadFailed,
  type PluginManifest
} from "./PluginManifest.ts"
import { Routes } from "./Routes.ts"

const failed =
  (manifest: PluginManifest, stage: PluginLoadFailed["stage"]) =>
  ({ code, message }: Pick<PluginError, "code" | "message">) =>
    new PluginLoadFailed({
      plugin: manifest.name,
      version: manifest.version,
      stage,
      reason: code,
      why: message
    })

const removalDisagreement = (
  { name, provides }: PluginManifest,
  removal: Offers["removal"]
): string | null => {
  const declared = provides.projectRemoval
  if (removal === null)
    return declared === undefined ? null : "it declares projectRemoval and registers no participant"
  if (declared === undefined) return "it registers a participant and does not declare projectRemoval"
  if (removal.phase !== declared) return `its participant is of phase ${removal.phase}, not ${declared}`
  return removal.name === `plugin:${name}` ? null : `its participant is ${removal.name}, not plugin:${name}`
}

const routeOf = ({ method, pattern }: DeclaredRoute): string => `${method} ${pattern}`

const routesDisagreement = (manifest: PluginManifest, routes: Offers["routes"]): string | null => {
  const declared = manifest.routes.map(routeOf).toSorted()
  const offered = routes.map(routeOf).toSorted()
  const missing = declared.find((route) => !offered.includes(route))
  if (missing !== undefined) return `it declares the route ${missing} and does not register it`
  const extra = offered.find((route) => !declared.includes(route))
  if (extra !== undefined) return `it registers the route ${extra} and does not declare it`
  const repeated = offered.find((route, index) => offered[index + 1] === route)
  return repeated === undefined ? null : `it registers the route ${repeated} twice`
}

/** What the manifest and the offers contradict each other in, or null. Pure. Source: SP-DEL-01, SP-HTTP-01. */
export const disagreement = (
  manifest: PluginManifest,
  offers: Pick<Offers, "removal" | "routes">
): string | null =>
  removalDisagreement(manifest, offers.removal) ?? routesDisagreement(manifest, offers.routes)

/** Controls, routes, the removal participant, reconciliation: the only place that knows this order. */
const install = Effect.fnUntraced(function* ({ name }: PluginManifest, offers: Offers) {
  const participants = yield* Participants
  const registry = yield* Routes
  yield* Effect.forEach(offers.controls, (control) => control.install, { discard: true })
  yield* Effect.forEach(offers.routes, (route) => registry.register({ plugin: name, ...route }), {
    discard: true
  })
  if (offers.removal !== null) yield* participants.register(offers.removal)
  yield* offers.startReconciliation
})

/**
 * Loads one plugin on the handle of its schema and notes its version. Refused with `PluginLoadFailed`, which names
 * plugin and version; then nothing of it was installed, and after a failed migration `register` was never called.
 */
export const loadPlugin = Effect.fn("host.loadPlugin")(function* <
  ME extends PluginError,
  RE extends PluginError,
  R
>(plugin: Plugin<ME, RE, R>, db: PluginDb["Service"]) {
  const { manifest } = plugin
  const installed = yield* InstalledPlugins
  const onHandle = Effect.provideService(PluginDb, db)
  yield* plugin.migrate.pipe(onHandle, Effect.mapError(failed(manifest, "migrate")))
  const offers = yield* plugin.register.pipe(onHandle, Effect.mapError(failed(manifest, "register")))
  const why = disagreement(manifest, offers)
  if (why !== null) return yield* failed(manifest, "manifest")({ code: "manifest_disagrees", message: why })
  yield* Effect.mapError(installed.record(manifest), failed(manifest, "record"))
  yield* install(manifest, offers)
})
