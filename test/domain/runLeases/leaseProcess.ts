/**
 * A daemon's part in run leases as a process of its own: a runtime over the test's database with real workers, that
 * carries one order out and may kill itself meanwhile. Tells what came of it as one line of JSON. Started by
 * leaseProcesses.ts.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { providerOrphanGraceMillis } from "../../../src/domain/Bounds.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import type { Acquisition } from "../../../src/domain/runLeases/EnvironmentDriver.ts"
import { NodeId } from "../../../src/domain/Identity.ts"
import { Processes } from "../../../src/domain/Processes.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import * as Db from "../../../src/infra/postgres/PluginDb.ts"
import * as MachineProcesses from "../../../src/infra/Processes.ts"
import { killingObserver } from "../../support/killingObserver.ts"
import { makeMovableClock } from "../../support/movableClock.ts"
import { pluginSchema } from "../../support/schemas.ts"
import type { Order } from "./leaseProcesses.ts"
import { overHandle } from "./leaseStores.ts"
import { freshRuntime } from "./runtimes.ts"
import { runningWorkers, workersLayer } from "./scriptedProvider.ts"

const [, , given = ""] = process.argv
const order: Order = JSON.parse(given)
const node = NodeId.make("00000000-0000-4000-8000-00000000000a")
const steps: Array<string> = []

const acquisition = Effect.gen(function* () {
  const { environment, requestKey, run, tenant } = order
  const found = yield* EnvironmentStore.use((environments) => environments.getById(environment))
  const asked: Acquisition = {
    tenant,
    environment: Option.getOrThrow(found),
    task: null,
    run,
    executionWorkspace: null,
    ...(requestKey === undefined ? {} : { requestKey })
  }
  return asked
})

const carryOut = Effect.gen(function* () {
  const workers = yield* runningWorkers
  const runtime = yield* freshRuntime({ workers, processes: yield* Processes })
  if (order.action === "recover") {
    const { ahead, clock } = yield* makeMovableClock
    return yield* Effect.gen(function* () {
      const first = yield* runtime.recoverLostCreations
      yield* ahead(providerOrphanGraceMillis)
      const second = yield* runtime.recoverLostCreations
      return { first, second, swept: yield* runtime.sweepCleanups(0) }
    }).pipe(Effect.provideService(Clock.Clock, clock))
  }
  const { lease } = yield* runtime.acquireRunLease(yield* acquisition)
  if (order.action === "hand back") yield* runtime.releaseRunLeases(order.run)
  if (order.action === "destroy") yield* runtime.releaseRunLeases(order.run, { disposition: "destroy" })
  return { lease: lease.id }
})

const observer = killingObserver(order.killAt, (boundary, program, step) => {
  if (boundary === "before") steps.push(`${program}: ${step}`)
})

const layer = Layer.mergeAll(workersLayer, MachineProcesses.layer(node)).pipe(
  Layer.provideMerge(overHandle),
  Layer.provideMerge(Db.layer({ address: order.address, schema: pluginSchema, connectionsMax: 2 }))
)

const told = await Effect.runPromise(
  carryOut.pipe(Effect.scoped, Effect.provide(layer), Effect.provideService(StepObserver, observer))
)
process.stdout.write(`${JSON.stringify({ ...told, steps })}\n`)
