/** Starts processes of leaseProcess.ts, and tells how they ended. */
import * as Effect from "effect/Effect"
import { join } from "node:path"
import type { EnvironmentId, RequestKey, RunId, TenantId } from "../../../src/domain/Identity.ts"
import { Clone, type CloneShape } from "../../support/clone.ts"
import { startProcess } from "../../support/daemonProcess.ts"
import type { KillPoint } from "../../support/killingObserver.ts"

const program = join(import.meta.dirname, "leaseProcess.ts")

export interface Order {
  readonly address: CloneShape["address"]
  /** The two that end a lease acquire it before. `recover` is a later daemon: lost creations, and a sweep. */
  readonly action: "acquire" | "hand back" | "destroy" | "recover"
  readonly tenant: TenantId
  readonly environment: EnvironmentId
  readonly run: RunId
  readonly requestKey?: RequestKey
  readonly killAt?: KillPoint
}

/** Starts one on the test's clone; it is killed with the scope. */
export const startLeaseProcess = (order: Omit<Order, "address">) =>
  Effect.flatMap(Clone, ({ address }) =>
    startProcess([JSON.stringify({ ...order, address } satisfies Order)], undefined, program)
  )

/** Runs one to its end: its exit code or the signal that ended it, and what it told. */
export const runLeaseProcess = (order: Omit<Order, "address">) =>
  Effect.gen(function* () {
    const started = yield* startLeaseProcess(order)
    return { ended: yield* started.ended, output: started.output() }
  }).pipe(Effect.scoped)
