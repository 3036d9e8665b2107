/** Strays at a provider that is a real process: what is ours and nobody's goes after two looks, and nothing else does. */
import { randomUUID } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { providerOrphanGraceMillis } from "../../../src/domain/Bounds.ts"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentLeaseId } from "../../../src/domain/Identity.ts"
import { RuntimeSettings } from "../../../src/domain/runLeases/RuntimeSettings.ts"
import { makeStraySearch } from "../../../src/domain/runLeases/strayResources.ts"
import { makeMovableClock } from "../../support/movableClock.ts"
import { acquisition } from "../../infra/postgres/leaseRequests.ts"
import { censuses } from "./callers.ts"
import { inDaemon, sweepIn } from "./daemons.ts"
import { newEnvironment, newTenant, onClone } from "./fixture.ts"
import { leaseRow } from "./rawRows.ts"
import { capturedLog, settings } from "./runtimes.ts"
import {
  installScripted,
  placeResource,
  resourcesIn,
  runningWorkers,
  stateDirectory,
  workersLayer
} from "./scriptedProvider.ts"

const testMillisMax = 60_000
const nothing = { attempted: 0, done: 0, failed: 0 }

describe("strays of a real process", () => {
  it.live(
    "FC-03 BX-03 ours without a row is destroyed after two looks; one that got its row, and one of another label, stay",
    () =>
      Effect.gen(function* () {
        const tenant = yield* newTenant
        yield* installScripted
        const directory = yield* stateDirectory
        const environment = yield* newEnvironment("sandbox", {
          provider: "scripted",
          stateDirectory: directory
        })
        const parts = { workers: yield* runningWorkers }
        const { ahead, clock } = yield* makeMovableClock
        const search = yield* makeStraySearch({ own: tenant, providers: [] })
        const pass = search.pipe(
          inDaemon(parts),
          Effect.provideService(RuntimeSettings, settings),
          Effect.provideService(Clock.Clock, clock),
          capturedLog().capture
        )
        const [stray, owned, foreign, late] = [1, 2, 3, 4].map(() => EnvironmentLeaseId.make(randomUUID()))
        const nameOf = (id = stray, label = settings.installation) => `${label}-${id}`
        yield* placeResource(directory, nameOf(stray), settings.installation)
        yield* placeResource(directory, nameOf(owned), settings.installation)
        yield* placeResource(directory, nameOf(foreign, "somebody"), "somebody")
        assert.deepStrictEqual(yield* pass, nothing)
        assert.deepStrictEqual(yield* pass, nothing)
        yield* ahead(providerOrphanGraceMillis)
        yield* placeResource(directory, nameOf(late), settings.installation)
        yield* EnvironmentLeaseStore.use((store) =>
          store.acquireLease(
            acquisition(
              { tenant, environment },
              { id: owned!, provider: "scripted", providerLeaseId: nameOf(owned) }
            )
          )
        )
        assert.deepStrictEqual(yield* pass, { attempted: 1, done: 1, failed: 0 })
        assert.strictEqual(Object.keys(resourcesIn(directory)).length, 4, "journaled before it is destroyed")
        const row = yield* leaseRow(stray!)
        assert.deepInclude(row, { status: "pending_cleanup", provider_lease_id: nameOf(stray) })
        const swept = yield* sweepIn(parts).pipe(Effect.provideService(RuntimeSettings, settings))
        assert.deepStrictEqual(swept, { swept: 1, destroyed: 1, capped: 0 })
        assert.sameMembers(Object.keys(resourcesIn(directory)), [
          nameOf(owned),
          nameOf(foreign, "somebody"),
          nameOf(late)
        ])
        assert.strictEqual((yield* leaseRow(stray!))["status"], "expired")
        assert.strictEqual((yield* leaseRow(owned!))["status"], "active")
      }).pipe(Effect.scoped, Effect.provide(workersLayer), Effect.provide(censuses), onClone),
    testMillisMax
  )
})
