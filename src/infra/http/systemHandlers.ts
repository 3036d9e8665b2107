/** Handlers of the group `system`: health and the daemon's own view of its machine. They refuse nobody. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "./Api.ts"
import { SystemChecks } from "./SystemChecks.ts"
import type { HealthView } from "./Views.ts"

const health = Effect.gen(function* () {
  const system = yield* SystemChecks
  const checks = yield* system.health
  const view: HealthView = {
    status: checks.some(({ state }) => state === "failed") ? "degraded" : "ok",
    version: system.version,
    node: system.node,
    checks
  }
  return view
})

export const layer = HttpApiBuilder.group(Api, "system", (handlers) =>
  handlers.handleAll({
    health: () => health,
    doctor: () =>
      Effect.flatMap(SystemChecks, (system) => Effect.map(system.doctor, (checks) => ({ checks })))
  })
)
