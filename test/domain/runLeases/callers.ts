/** People at the API of a test, and the stores that what they ask for needs beside those of run leases. */
import { randomUUID } from "node:crypto"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import { AccountId, type TenantId } from "../../../src/domain/Identity.ts"
import { type Liveness, Processes } from "../../../src/domain/Processes.ts"
import { EnvironmentRuntime } from "../../../src/domain/runLeases/EnvironmentRuntime.ts"
import * as DaemonRuns from "../../../src/infra/postgres/DaemonRuns.ts"
import * as LeaseCensus from "../../../src/infra/postgres/LeaseCensus.ts"
import { newTenant } from "./fixture.ts"
import { freshRuntime, processIdentity, type RuntimeParts } from "./runtimes.ts"

export const callerOf = (tenant: TenantId, administrator = true): Caller =>
  new Caller({
    account: AccountId.make(randomUUID()),
    tenant,
    name: administrator ? "root" : "somebody",
    administrator,
    initiator: "user"
  })

/** A tenant with an administrator and somebody who is none. */
export const people = Effect.map(newTenant, (tenant) => ({
  tenant,
  root: callerOf(tenant),
  somebody: callerOf(tenant, false)
}))

export const censuses = Layer.merge(DaemonRuns.layer, LeaseCensus.layer)

/** The effect in a daemon with a runtime of its own, which sees every other process so; `steered` is as a test says. */
export const withRuntime =
  (
    parts: RuntimeParts = {},
    liveness: Liveness = "alive",
    steered: Partial<EnvironmentRuntime["Service"]> = {}
  ) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      const runtime = { ...(yield* freshRuntime(parts)), ...steered }
      const context = Context.make(EnvironmentRuntime, runtime).pipe(
        Context.add(Processes, { current: processIdentity, liveness: () => Effect.succeed(liveness) })
      )
      return yield* Effect.provideContext(effect, context)
    })
