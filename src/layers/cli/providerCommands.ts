/** The commands `secret` and `provider`: flags and help. What they do is loaded when one of them is run. */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Ref from "effect/Ref"
import type { Place } from "./place.ts"
import type * as Providers from "./providers.ts"
import { ExitStatus, load, running, undefinedOr } from "./root.ts"
import type * as Secrets from "./secrets.ts"

type SecretVerbs = typeof Secrets
type ProviderVerbs = typeof Providers

const secrets = <A, E, R>(verb: (verbs: SecretVerbs, place: Place) => Effect.Effect<A, E, R>) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./secrets.ts")),
      (verbs) => verb(verbs, place)
    )
  )

const providers = <A, E, R>(verb: (verbs: ProviderVerbs, place: Place) => Effect.Effect<A, E, R>) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./providers.ts")),
      (verbs) => verb(verbs, place)
    )
  )

const secretArgument = Argument.String("secret").pipe(
  Argument.withDescription("Name or id of the secret; its value is read from standard input")
)

const set = Command.make(
  "set",
  {
    name: Argument.String("name").pipe(
      Argument.withDescription("Name of the secret; its value is read from standard input")
    )
  },
  ({ name }) => secrets((verbs, place) => verbs.setSecret(place, name))
).pipe(Command.withDescription("Store a secret, or another value of one that is there"))

const rotate = Command.make("rotate", { secret: secretArgument }, ({ secret: reference }) =>
  secrets((verbs, place) => verbs.rotateSecret(place, reference))
).pipe(Command.withDescription("Give a secret another value; 4 when there is no such secret"))

const listSecrets = Command.make("list", {}, () => secrets((verbs, place) => verbs.listSecrets(place))).pipe(
  Command.withDescription("List the secrets, never their values")
)

const bind = Command.make(
  "bind",
  {
    secret: Argument.String("secret").pipe(Argument.withDescription("Name or id of the secret")),
    environment: Argument.String("environment").pipe(
      Argument.withDescription("Name or id of the environment")
    ),
    configPath: Argument.String("key").pipe(
      Argument.withDescription("Place in the config, such as apiKey or privateKeySecretRef")
    )
  },
  (payload) => secrets((verbs, place) => verbs.bindSecret(place, payload))
).pipe(Command.withDescription("Allow an environment the use of a secret at one place of its config"))

/** `holdfast secret …`. */
export const secret = Command.make("secret").pipe(
  Command.withDescription("What environments authenticate with: stored under lock, shown nowhere"),
  Command.withSubcommands([set, rotate, listSecrets, bind])
)

const listProviders = Command.make("list", {}, () =>
  providers((verbs, place) => verbs.listProviders(place))
).pipe(Command.withDescription("List the installed provider plugins and how their workers stand"))

const folderArgument = Argument.String("folder").pipe(
  Argument.withDescription("Folder of the plugin, with its manifest.json")
)

const add = Command.make("add", { folder: folderArgument }, ({ folder }) =>
  providers((verbs, place) => verbs.addProvider(place, folder))
).pipe(Command.withDescription("Install the provider plugin of a folder, or its newer version"))

const remove = Command.make(
  "remove",
  { provider: Argument.String("provider").pipe(Argument.withDescription("Key or id of the plugin")) },
  ({ provider: reference }) => providers((verbs, place) => verbs.removeProvider(place, reference))
).pipe(Command.withDescription("Take a provider plugin out; 5 while a lease of it is not over"))

const check = Command.make(
  "check",
  {
    folder: folderArgument,
    configFile: Flag.String("config").pipe(
      Flag.optional,
      Flag.withMetavar("FILE"),
      Flag.withDescription("JSON file with the config of every call, secrets in the clear")
    )
  },
  ({ configFile, folder }) =>
    providers((verbs) =>
      Effect.gen(function* () {
        const exit = yield* verbs.checkProviderFolder({ folder, configFile: undefinedOr(configFile) })
        yield* Ref.set(yield* ExitStatus, exit)
      })
    )
).pipe(
  Command.withDescription("Run the conformance checks against a plugin, without a daemon; 1 when one failed")
)

/** `holdfast provider …`. */
export const provider = Command.make("provider").pipe(
  Command.withDescription("The plugins by which providers of sandboxes are reached"),
  Command.withSubcommands([listProviders, add, remove, check])
)
