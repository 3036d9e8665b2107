/** Adapter of BuiltInProviders: a list of providers, each found by its key. Two of one key are a mistake of the composition. */
import * as Layer from "effect/Layer"
import { type BuiltInProvider, BuiltInProviders } from "../../domain/providers/BuiltInProviders.ts"

export const layer = (providers: ReadonlyArray<BuiltInProvider>): Layer.Layer<BuiltInProviders> =>
  Layer.sync(BuiltInProviders, () => {
    const byKey = new Map(providers.map((provider) => [provider.key, provider]))
    if (byKey.size !== providers.length) {
      throw new Error("two built-in providers have one key: give each a key of its own")
    }
    return { find: (key) => byKey.get(key) }
  })
