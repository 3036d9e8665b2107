/** The verbs below `env`: the environments that runs can lease. */
import * as Files from "node:fs"
import * as Effect from "effect/Effect"
import { table } from "../../infra/cli/text.ts"
import type { EnvironmentChange } from "../../infra/http/environmentApi.ts"
import type { EnvironmentRowView } from "../../infra/http/environmentViews.ts"
import { type Connection, connected, type Target } from "./connection.ts"
import { CliFailure, usage } from "./Failure.ts"
import { given } from "./given.ts"
import { Output } from "./Output.ts"
import { exitCodes } from "./exitCodes.ts"

type Config = Readonly<Record<string, unknown>>

/** What the flags say of an environment's config. */
export interface ConfigFlags {
  readonly configFile: string | undefined
  readonly provider: string | undefined
  /** Values as JSON where they are JSON, else as text. */
  readonly settings: Readonly<Record<string, string>>
  /** Secrets by name or id, for the places that they belong to. */
  readonly secrets: Readonly<Record<string, string>>
}

const readConfig = (path: string) =>
  Effect.try({
    try: (): Config => {
      const read: unknown = JSON.parse(Files.readFileSync(path, "utf8"))
      if (typeof read !== "object" || read === null || Array.isArray(read)) throw new Error("no object")
      return Object.fromEntries(Object.entries(read))
    },
    catch: () => usage(`${path} holds no JSON object that can be read`)
  })

const valueOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Puts the value at the place that the path names, with points between its parts. */
const placed = (config: Config, path: ReadonlyArray<string>, value: unknown): Config => {
  const [key, ...rest] = path
  if (key === undefined) return config
  const below = config[key]
  const inner = typeof below === "object" && below !== null && !Array.isArray(below) ? { ...below } : {}
  return { ...config, [key]: rest.length === 0 ? value : placed(inner, rest, value) }
}

const secretsNamed = Effect.fnUntraced(function* (
  { call, client }: Connection,
  wanted: ConfigFlags["secrets"]
) {
  if (Object.keys(wanted).length === 0) return []
  const secrets = yield* call(client.secrets.list())
  return yield* Effect.forEach(Object.entries(wanted), ([path, reference]) => {
    const found = secrets.find(({ id }) => id === reference) ?? secrets.find(({ name }) => name === reference)
    return found === undefined
      ? Effect.fail(
          new CliFailure({
            code: "secret_not_found",
            message: `there is no secret ${reference}: see secret list`,
            exit: exitCodes.notFound
          })
        )
      : Effect.succeed({ path, secret: found })
  })
})

type NamedSecrets = Effect.Success<ReturnType<typeof secretsNamed>>

const configOf = Effect.fnUntraced(function* (flags: ConfigFlags, start: Config, secrets: NamedSecrets) {
  const read = flags.configFile === undefined ? start : yield* readConfig(flags.configFile)
  const provider = flags.provider === undefined ? {} : { provider: flags.provider }
  const settings = Object.entries(flags.settings).map(([path, text]) => [path, valueOf(text)] as const)
  const references = secrets.map(
    ({ path, secret }) => [path, { type: "secret_ref", secretId: secret.id, version: "latest" }] as const
  )
  return [...settings, ...references].reduce<Config>(
    (config, [path, value]) => placed(config, path.split("."), value),
    { ...read, ...provider }
  )
})

/** Allows the environment its secrets. A binding's path is told from the config that the provider is given. */
const bindAll = ({ call, client }: Connection, environment: string, secrets: NamedSecrets) =>
  Effect.forEach(secrets, ({ path, secret }) =>
    call(client.secrets.bind({ payload: { secret: secret.id, environment, configPath: path } }))
  )

const rowsOf = (environments: ReadonlyArray<EnvironmentRowView>) => [
  ["ENVIRONMENT", "DRIVER", "PROVIDER", "STATUS", "ID"],
  ...environments.map(({ config, driver, id, name, status }) => [
    name,
    driver,
    String(config["provider"] ?? config["driverKey"] ?? "-"),
    status,
    id
  ])
]

const linesOf = (environment: EnvironmentRowView): ReadonlyArray<string> => [
  ...table(rowsOf([environment])),
  ...(environment.description === null ? [] : [environment.description]),
  ...JSON.stringify(environment.config, null, 2).split("\n")
]

/** Makes an environment, and binds the secrets that its config names. */
export const createEnvironment = Effect.fn("cli.createEnvironment")(function* (
  target: Target,
  options: ConfigFlags & {
    readonly name: string
    readonly driver: "local" | "ssh" | "sandbox" | "plugin"
    readonly description: string | undefined
  }
) {
  const output = yield* Output
  yield* connected(target, (connection) =>
    Effect.gen(function* () {
      const { call, client } = connection
      const secrets = yield* secretsNamed(connection, options.secrets)
      const config = yield* configOf(options, {}, secrets)
      const { description, driver, name } = options
      const payload = { name, driver, config, ...given("description", description) }
      const environment = yield* call(client.environments.create({ payload }))
      yield* bindAll(connection, environment.id, secrets)
      yield* output.result(environment, [`created environment ${name} (${environment.id})`])
    })
  )
})

/** Lists the environments by name. */
export const listEnvironments = Effect.fn("cli.listEnvironments")(function* (target: Target) {
  const output = yield* Output
  const environments = yield* connected(target, ({ call, client }) => call(client.environments.list()))
  yield* output.result(environments, table(rowsOf(environments)))
})

/** Shows one environment with its config. */
export const showEnvironment = Effect.fn("cli.showEnvironment")(function* (
  target: Target,
  reference: string
) {
  const output = yield* Output
  const environment = yield* connected(target, ({ call, client }) =>
    call(client.environments.get({ params: { environment: reference } }))
  )
  yield* output.result(environment, linesOf(environment))
})

const hasConfig = ({ configFile, provider, secrets, settings }: ConfigFlags): boolean =>
  configFile !== undefined ||
  provider !== undefined ||
  Object.keys(settings).length + Object.keys(secrets).length > 0

/** Changes what was given; settings are put into the config that is there. */
export const updateEnvironment = Effect.fn("cli.updateEnvironment")(function* (
  target: Target,
  options: ConfigFlags & {
    readonly environment: string
    readonly name: string | undefined
    readonly status: "active" | "disabled" | undefined
  }
) {
  const output = yield* Output
  yield* connected(target, (connection) =>
    Effect.gen(function* () {
      const { call, client } = connection
      const { environment: reference, name, status } = options
      const present = yield* call(client.environments.get({ params: { environment: reference } }))
      const secrets = yield* secretsNamed(connection, options.secrets)
      const config = hasConfig(options) ? yield* configOf(options, present.config, secrets) : undefined
      const payload: EnvironmentChange = {
        ...given("name", name),
        ...given("status", status),
        ...given("config", config)
      }
      if (Object.keys(payload).length === 0)
        return yield* usage("nothing is to be changed: give --name, --status or a part of the config")
      const environment = yield* call(
        client.environments.update({ params: { environment: present.id }, payload })
      )
      yield* bindAll(connection, environment.id, secrets)
      yield* output.result(environment, linesOf(environment))
    })
  )
})

/** Destroys what the environment's leases keep alive, then removes it. */
export const deleteEnvironment = Effect.fn("cli.deleteEnvironment")(function* (
  target: Target,
  reference: string
) {
  const output = yield* Output
  const deleted = yield* connected(target, ({ call, client }) =>
    call(client.environments.remove({ params: { environment: reference } }))
  )
  yield* output.result(deleted, [
    `deleted environment ${reference}: ${deleted.destroyed} leases were destroyed`
  ])
})
