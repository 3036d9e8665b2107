/** Ports that a test of handlers never comes to, but for what it gives: a handler that asks anything else dies. */
import type * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import { LeaseCensus } from "../../../src/domain/environments/LeaseCensus.ts"
import { Processes } from "../../../src/domain/Processes.ts"
import { ProviderPlugins } from "../../../src/domain/providers/ProviderPlugins.ts"
import { EnvironmentRuntime } from "../../../src/domain/runLeases/EnvironmentRuntime.ts"
import { SecretCipher } from "../../../src/domain/secrets/Secret.ts"
import { SecretStore } from "../../../src/domain/secrets/SecretStore.ts"
import { DaemonRuns } from "../../../src/domain/work/DaemonRuns.ts"
import { WorkStore } from "../../../src/domain/work/WorkStore.ts"
import { WorkerKeeping } from "../../../src/infra/providers/ProviderWorkers.ts"

/** One such port. */
export const unasked = <I, S extends object>(
  port: Context.Key<I, S>,
  given: Partial<S> = {}
): Layer.Layer<I> =>
  Layer.succeed(
    port,
    new Proxy(given as S, {
      get: (target, name) => {
        if (Reflect.has(target, name)) return Reflect.get(target, name)
        throw new Error(`${port.key}.${String(name)} is not asked here`)
      }
    })
  )

/** Everything that the handlers of environments need; of leases what is given. */
export const environmentPorts = (leases: Partial<EnvironmentLeaseStore["Service"]> = {}) =>
  Layer.mergeAll(
    unasked(EnvironmentStore),
    unasked(EnvironmentLeaseStore, leases),
    unasked(EnvironmentRuntime),
    unasked(LeaseCensus),
    unasked(ProviderPlugins),
    unasked(SecretCipher),
    unasked(SecretStore),
    unasked(DaemonRuns),
    unasked(WorkStore),
    unasked(WorkerKeeping),
    unasked(Processes)
  )
