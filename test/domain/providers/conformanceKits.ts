/** Kits of conformance checks over a scripted worker. */
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { ProviderPluginId } from "../../../src/domain/Identity.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { create, type Kit, madeOf } from "../../../src/domain/providers/conformanceKit.ts"

/** A kit whose worker has these methods and answers by the function; with the calls that were made. */
export const kitAnswering = (
  answer: (method: string, params: JsonObject) => Effect.Effect<unknown, Error>,
  methods: ReadonlyArray<string>
) => {
  const calls: Array<readonly [method: string, params: JsonObject]> = []
  const call: Kit["call"] = (method, params) =>
    Effect.suspend(() => {
      calls.push([method, params])
      return answer(method, params)
    })
  const provider = {
    manager: { isRunning: () => true, call: () => Effect.never },
    plugin: ProviderPluginId.make(randomUUID()),
    entry: { driverKey: "scripted", supportsIntents: methods.includes("environmentListLeases") },
    config: { image: "x" },
    secrets: [],
    installation: "conformance",
    tenant: randomUUID(),
    environment: randomUUID(),
    uuid: Effect.sync(() => randomUUID())
  }
  const acquire = Effect.flatMap(create(provider, call, "conformance-1", randomUUID()), (made) =>
    madeOf(made, "conformance-1")
  )
  const kit: Kit = { ...provider, call, methods: new Set(methods), leaks: new Set<string>(), acquire }
  return { kit, calls }
}
