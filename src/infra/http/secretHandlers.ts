/** Handlers of the group `secrets`. A value comes in with a request, under lock at once, and never leaves by an answer. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Redacted from "effect/Redacted"
import { findEnvironment } from "../../domain/runLeases/environmentAccess.ts"
import { findSecret, setSecret } from "../../domain/secrets/secretAccess.ts"
import { bindSecret, listSecrets, rotateSecret } from "../../domain/secrets/vault.ts"
import { Api, CurrentCaller } from "./Api.ts"
import { answeringRuntime } from "./environmentRefusals.ts"
import { secretView } from "./environmentViews.ts"

const list = Effect.gen(function* () {
  const { tenant } = yield* CurrentCaller
  return (yield* listSecrets(tenant)).map(secretView)
}).pipe(answeringRuntime)

const set = Effect.fnUntraced(function* (name: string, value: Redacted.Redacted) {
  const { tenant } = yield* CurrentCaller
  return secretView(yield* setSecret({ tenant, name, value }))
}, answeringRuntime)

const rotate = Effect.fnUntraced(function* (reference: string, value: Redacted.Redacted) {
  const { tenant } = yield* CurrentCaller
  const { id } = yield* findSecret(tenant, reference)
  return secretView(yield* rotateSecret({ tenant, secret: id, value }))
}, answeringRuntime)

const bind = Effect.fnUntraced(function* (asked: {
  readonly secret: string
  readonly environment: string
  readonly configPath: string
}) {
  const { tenant } = yield* CurrentCaller
  const secret = yield* findSecret(tenant, asked.secret)
  const { id: environment } = yield* findEnvironment(asked.environment)
  yield* bindSecret({ tenant, secret: secret.id, environment, configPath: asked.configPath })
  return secretView(secret)
}, answeringRuntime)

export const layer = HttpApiBuilder.group(Api, "secrets", (handlers) =>
  handlers.handleAll({
    list: () => list,
    set: ({ payload: { name, value } }) => set(name, Redacted.make(value)),
    rotate: ({ payload: { secret, value } }) => rotate(secret, Redacted.make(value)),
    bind: ({ payload }) => bind(payload)
  })
)
