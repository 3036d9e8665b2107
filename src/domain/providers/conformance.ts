/**
 * What a provider plugin must do to be trusted with sandboxes, as checks that run against its living worker. Each creates
 * what it needs and destroys it again; a check that a provider need not pass, since it does not claim the capability, is
 * left out and says so. Source: BX-06, BX-01, BX-03, FC-04, FC-07.
 */
import * as Effect from "effect/Effect"
import { providerCheckMillisMax } from "../Bounds.ts"
import { type Check, checks } from "./conformanceChecks.ts"
import { ProviderRpcError } from "./ProviderWorkers.ts"
import { type Call, type CheckedProvider, create, destroy, type Kit, madeOf } from "./conformanceKit.ts"

export type CheckOutcome =
  | { readonly _tag: "Passed" }
  | { readonly _tag: "LeftOut"; readonly why: string }
  | { readonly _tag: "Failed"; readonly why: string }

export interface CheckReport {
  readonly check: string
  readonly outcome: CheckOutcome
}

const kitOf = (provider: CheckedProvider, made: Array<string>, leaks: Set<string>): Kit => {
  const search = (method: string) => (said: unknown) =>
    Effect.sync(() => {
      const text = JSON.stringify(said) ?? ""
      if (provider.secrets.some((secret) => text.includes(secret))) leaks.add(method)
    })
  const call: Call = (method, params) =>
    provider.manager.call(provider.plugin, method, params, providerCheckMillisMax).pipe(
      Effect.tap(search(method)),
      Effect.tapError((error) =>
        search(method)([error.message, error instanceof ProviderRpcError ? error.data : null])
      )
    )
  const acquire = Effect.gen(function* () {
    const intent = `${provider.installation}-${yield* provider.uuid}`
    const one = yield* Effect.flatMap(create(provider, call, intent, yield* provider.uuid), (answer) =>
      madeOf(answer, intent)
    )
    made.push(one.id)
    return one
  })
  const methods = new Set(provider.manager.getWorker?.(provider.plugin)?.supportedMethods)
  return { ...provider, call, methods, acquire, leaks }
}

const runOne = Effect.fnUntraced(function* (provider: CheckedProvider, check: Check, leaks: Set<string>) {
  const made: Array<string> = []
  const kit = kitOf(provider, made, leaks)
  const leftOut = check.leftOut?.(kit)
  if (leftOut !== undefined) return { check: check.name, outcome: { _tag: "LeftOut", why: leftOut } } as const
  return yield* check.run(kit).pipe(
    Effect.ensuring(Effect.forEach(made, (id) => Effect.ignore(destroy(kit, id)))),
    Effect.match({
      onSuccess: (): CheckReport => ({ check: check.name, outcome: { _tag: "Passed" } }),
      onFailure: (why): CheckReport => ({ check: check.name, outcome: { _tag: "Failed", why } })
    })
  )
})

/**
 * Runs every check, one after another, against the plugin's living worker. Never fails: what a check met is its report.
 * No report carries a text of the provider's.
 */
export const checkProvider = (provider: CheckedProvider): Effect.Effect<ReadonlyArray<CheckReport>> =>
  Effect.suspend(() => {
    const leaks = new Set<string>()
    return Effect.forEach(checks, (check) => runOne(provider, check, leaks))
  })
