/**
 * The driver `local`: a run works on the daemon's own machine, as the daemon's own user. Its lease names no provider and
 * owes no resource but the processes of its commands, and it ends when none of them is left. Every disposition is a plain
 * release. Source: RL-ACQ-01, U13.
 */
import * as Effect from "effect/Effect"
import { executionTimeoutMillisMax } from "../Bounds.ts"
import type { EnvironmentLeaseStore } from "../environments/EnvironmentLeaseStore.ts"
import { Identifiers } from "../Identifiers.ts"
import { EnvironmentLeaseId } from "../Identity.ts"
import type { DriverMaker } from "./EnvironmentDrivers.ts"
import type { Acquisition, EnvironmentDriver, Execution, Release } from "./EnvironmentDriver.ts"
import { acquireHostLease, releaseHostLease } from "./hostLeases.ts"
import { LocalCommands } from "./LocalCommands.ts"

const acquire = Effect.fnUntraced(function* (asked: Acquisition) {
  const id = EnvironmentLeaseId.make(yield* (yield* Identifiers).uuid)
  return yield* acquireHostLease(asked, {
    id,
    driver: "local",
    providerLeaseId: null,
    metadata: {},
    sentConfig: null
  })
})

const release = Effect.fnUntraced(function* (asked: Release) {
  yield* (yield* LocalCommands).endAll(asked.lease.id)
  return yield* releaseHostLease(asked)
})

const execute = (asked: Execution) =>
  LocalCommands.use((commands) =>
    commands.run(asked.lease.id, {
      argv: [asked.command, ...asked.args],
      workingDirectory: asked.cwd,
      environment: asked.env,
      standardInput: asked.stdin ?? null,
      timeoutMillis: asked.commandTimeoutMillis ?? asked.timeoutMillis ?? executionTimeoutMillisMax,
      ...(asked.logSink === undefined ? {} : { logSink: asked.logSink })
    })
  )

/** The driver over the lease table and this machine's processes. */
export const localDriver: DriverMaker<EnvironmentLeaseStore | LocalCommands | Identifiers> = Effect.map(
  Effect.context<EnvironmentLeaseStore | LocalCommands | Identifiers>(),
  (context): EnvironmentDriver => ({
    driver: "local",
    acquireRunLease: (asked) => Effect.provideContext(acquire(asked), context),
    releaseRunLease: (asked) => Effect.provideContext(release(asked), context),
    realizeWorkspace: ({ workspace }) => Effect.succeed({ cwd: workspace.localPath, metadata: {} }),
    execute: (asked) => Effect.provideContext(execute(asked), context)
  })
)
