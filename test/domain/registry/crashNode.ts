/**
 * A node whose registry and run state are on a simulated disk, over scripted guests that outlive the daemon, and die
 * with the machine's power.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { Identifiers } from "../../../src/domain/Identifiers.ts"
import { RunState } from "../../../src/domain/reclamation/RunState.ts"
import { makeRegistry } from "../../../src/domain/registry/makeRegistry.ts"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import { type NodeCapacity, Registry } from "../../../src/domain/registry/Registry.ts"
import type { ScriptedState } from "../../../src/infra/guests/scriptedState.ts"
import { layerScripted } from "../../../src/infra/guests/scriptedSupervisor.ts"
import type { SimulatedDisk } from "../../support/simulatedDisk.ts"
import { type Life, type LifeOptions, startLife } from "../../support/simulatedDiskCalls.ts"
import { makeSimulatedRunState } from "../../support/simulatedRunState.ts"
import { numberedIdentifiers, portsOver } from "./crashOracle.ts"
import { type RegistryService, roomy } from "./fixture.ts"
import type { NodeServices } from "./guestFixture.ts"

export interface SimulatedNode {
  readonly life: Life
  readonly registry: RegistryService
  readonly context: Context.Context<NodeServices>
}

/** What a deletion and a launch work with; a test may put its own in their place. */
export interface Parts {
  readonly registry: RegistryService
  readonly runState: RunState["Service"]
  readonly supervisor: GuestSupervisor["Service"]
}

export interface SimulatedNodeOptions {
  readonly disk: SimulatedDisk
  readonly guests: ScriptedState
  readonly life?: LifeOptions
  readonly capacity?: NodeCapacity
  readonly identifiers?: Identifiers["Service"]
  readonly adapt?: (parts: Parts) => Parts
}

/** Starts a daemon on the disk. */
export const openSimulatedNode = (options: SimulatedNodeOptions) =>
  Effect.gen(function* () {
    const { capacity = roomy, disk, guests, identifiers = numberedIdentifiers() } = options
    const life = startLife(disk, options.life)
    const ports = yield* portsOver(life, identifiers)
    const opened = yield* Effect.provideContext(
      Effect.flatMap(openRegistry(), (found) => makeRegistry(found, capacity)),
      ports
    )
    const guestContext = yield* Layer.build(layerScripted(guests))
    const sound: Parts = {
      registry: opened,
      runState: makeSimulatedRunState(life.calls),
      supervisor: Context.get(guestContext, GuestSupervisor)
    }
    const { registry, runState, supervisor } = options.adapt?.(sound) ?? sound
    const context = Context.make(Registry, registry).pipe(
      Context.add(RunState, runState),
      Context.add(GuestSupervisor, supervisor),
      Context.add(Identifiers, identifiers)
    )
    return { life, registry, context } satisfies SimulatedNode
  }).pipe(Scope.provide(Scope.makeUnsafe()))

/** The registry and the programs say what went wrong, and here much does. */
export const quietly = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.provide(effect, Logger.layer([]))
