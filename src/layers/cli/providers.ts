/**
 * The verbs below `provider`: the installed provider plugins, and the check of one that lies in a folder. The check needs
 * no daemon: it starts the plugin's worker here, for as long as it lasts.
 */
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { providerHandshakeMillisMax } from "../../domain/Bounds.ts"
import { ProviderPluginId } from "../../domain/Identity.ts"
import { isJsonObject, type JsonObject } from "../../domain/Json.ts"
import { checkProvider, type CheckReport } from "../../domain/providers/conformance.ts"
import type { EnvironmentDriverEntry } from "../../domain/providers/ProviderPlugin.ts"
import { type ProviderWorkerManager, ProviderWorkers } from "../../domain/providers/ProviderWorkers.ts"
import { table } from "../../infra/cli/text.ts"
import type { ProviderView } from "../../infra/http/environmentViews.ts"
import { readPluginFolder } from "../../infra/providers/pluginFolder.ts"
import { layer as layerWorkers, WorkerKeeping } from "../../infra/providers/ProviderWorkers.ts"
import { connected, type Target } from "./connection.ts"
import { type ExitCode, exitCodes } from "./exitCodes.ts"
import { CliFailure, failed, usage } from "./Failure.ts"
import { Output } from "./Output.ts"

const workerOf = ({ worker }: ProviderView): string =>
  worker.running ? `runs (${worker.pid})` : `away${worker.trouble === null ? "" : `: ${worker.trouble}`}`

const tableOf = (providers: ReadonlyArray<ProviderView>) =>
  table([
    ["PROVIDER", "VERSION", "DRIVERS", "STATUS", "WORKER", "FOLDER"],
    ...providers.map((provider) => [
      provider.key,
      provider.version,
      provider.drivers.join(", "),
      provider.status,
      workerOf(provider),
      provider.folder
    ])
  ])

/** Lists the installed plugins and how their workers stand. */
export const listProviders = Effect.fn("cli.listProviders")(function* (target: Target) {
  const output = yield* Output
  const providers = yield* connected(target, ({ call, client }) => call(client.providers.list()))
  yield* output.result(providers, tableOf(providers))
})

/** Installs the plugin of a folder, or its newer version. */
export const addProvider = Effect.fn("cli.addProvider")(function* (target: Target, folder: string) {
  const output = yield* Output
  const payload = { folder: Path.resolve(folder) }
  const provider = yield* connected(target, ({ call, client }) => call(client.providers.add({ payload })))
  yield* output.result(provider, [
    `installed provider ${provider.key} ${provider.version}, with the drivers ${provider.drivers.join(", ")}`
  ])
})

/** Takes a plugin out, by key or id. */
export const removeProvider = Effect.fn("cli.removeProvider")(function* (target: Target, reference: string) {
  const output = yield* Output
  const removed = yield* connected(target, ({ call, client }) =>
    Effect.gen(function* () {
      const providers = yield* call(client.providers.list())
      const found = providers.find(({ id, key }) => id === reference || key === reference)
      const provider = found?.id ?? (yield* notThere(reference))
      yield* call(client.providers.remove({ params: { provider } }))
      return found
    })
  )
  yield* output.result(removed, [`removed provider ${reference}`])
})

const notThere = (reference: string) =>
  Effect.fail(
    new CliFailure({
      code: "provider_not_found",
      message: `there is no provider plugin ${reference}: see provider list`,
      exit: exitCodes.notFound
    })
  )

/** The config of every call of the check. It may hold secrets in the clear, so it is read from a file. */
const readConfig = (path: string | undefined) =>
  Effect.try({
    try: (): JsonObject => {
      if (path === undefined) return {}
      const read: unknown = JSON.parse(Files.readFileSync(path, "utf8"))
      if (!isJsonObject(read)) throw new Error("no object")
      return read
    },
    catch: () => usage(`${path ?? ""} holds no JSON object that can be read`)
  })

/** Texts of the config at places that the schema marks as secrets: no answer may repeat them. */
const secretsIn = (config: JsonObject, { configSchema }: EnvironmentDriverEntry): ReadonlyArray<string> => {
  const properties = isJsonObject(configSchema?.["properties"]) ? configSchema["properties"] : {}
  return Object.entries(properties).flatMap(([key, property]) => {
    const value = config[key]
    const isSecret = isJsonObject(property) && property["format"] === "secret-ref"
    return isSecret && typeof value === "string" && value !== "" ? [value] : []
  })
}

const awaitWorker = (manager: ProviderWorkerManager, plugin: ProviderPluginId) =>
  Effect.sync(() => manager.isRunning(plugin)).pipe(
    Effect.repeat({ until: (isRunning) => isRunning, schedule: Schedule.spaced(50) }),
    Effect.timeoutOrElse({
      duration: providerHandshakeMillisMax,
      orElse: () =>
        Effect.fail(
          failed("provider_worker_offline", "the plugin's worker did not start, or refused the handshake")
        )
    })
  )

interface DriverReports {
  readonly driver: string
  readonly reports: ReadonlyArray<CheckReport>
}

const linesOf = ({ driver, reports }: DriverReports): ReadonlyArray<string> => [
  `driver ${driver}`,
  ...table(
    reports.map(({ check, outcome }) => [
      `  ${{ Passed: "passed", LeftOut: "left out", Failed: "FAILED" }[outcome._tag]}`,
      check,
      outcome._tag === "Passed" ? "" : outcome.why
    ])
  )
]

const checkAll = Effect.fnUntraced(function* (folder: string, config: JsonObject, installation: string) {
  const { files, manifest } = yield* readPluginFolder(folder).pipe(
    Effect.mapError(({ code, message }) => failed(code, message))
  )
  const plugin = ProviderPluginId.make(randomUUID())
  const manager = yield* ProviderWorkers
  if (manager === null) return yield* failed("internal", "there are no workers")
  yield* (yield* WorkerKeeping).keep([{ plugin, files }])
  yield* awaitWorker(manager, plugin)
  return yield* Effect.forEach(manifest.environmentDrivers ?? [], (entry) =>
    checkProvider({
      manager,
      plugin,
      entry,
      config,
      secrets: secretsIn(config, entry),
      installation,
      tenant: randomUUID(),
      environment: randomUUID(),
      uuid: Effect.sync(() => randomUUID())
    }).pipe(Effect.map((reports): DriverReports => ({ driver: entry.driverKey, reports })))
  )
})

/** Runs the conformance checks against the plugin of that folder; 1 when one of them failed. */
export const checkProviderFolder = Effect.fn("cli.checkProvider")(function* (options: {
  readonly folder: string
  readonly configFile: string | undefined
}) {
  const output = yield* Output
  const config = yield* readConfig(options.configFile)
  const installation = `holdfast-check-${randomUUID()}`
  const drivers = yield* checkAll(options.folder, config, installation).pipe(
    Effect.provide(Layer.fresh(layerWorkers({ installation }))),
    Effect.scoped
  )
  yield* output.result(drivers, drivers.flatMap(linesOf))
  const hasFailed = drivers.some(({ reports }) => reports.some(({ outcome }) => outcome._tag === "Failed"))
  const exit: ExitCode = hasFailed || drivers.length === 0 ? exitCodes.failed : exitCodes.done
  return exit
})
