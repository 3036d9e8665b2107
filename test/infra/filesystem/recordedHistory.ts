/**
 * Histories of a registry and its run state, for every disk that they may be on: a first open, mutations that a seed
 * draws, a removal behind its tombstone, and the open of the next daemon. Started as a program it goes through one in
 * the directory that it is given, so that somebody can look at its calls to the system from outside.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Identifiers } from "../../../src/domain/Identifiers.ts"
import { RunState } from "../../../src/domain/reclamation/RunState.ts"
import { Tombstone } from "../../../src/domain/reclamation/Tombstone.ts"
import { makeRegistry } from "../../../src/domain/registry/makeRegistry.ts"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import type { RegistryFiles } from "../../../src/domain/registry/RegistryFiles.ts"
import { layer as registryFiles } from "../../../src/infra/filesystem/RegistryFiles.ts"
import { layer as runState } from "../../../src/infra/filesystem/RunState.ts"
import { layer as identifiers } from "../../../src/infra/Identifiers.ts"
import { drawMutation } from "../../domain/registry/crashHistory.ts"
import {
  proofOf,
  recordOf,
  type RegistryService,
  roomy,
  sandboxOf,
  withDeletion
} from "../../domain/registry/fixture.ts"
import { makeSeededRandom, type SeededRandom } from "../../support/seededRandom.ts"

type Ports = RegistryFiles | Identifiers | RunState

const mutations = 12
const sandboxes = 3
const removed = sandboxOf(8)

/** What the seed draws, one after another, from what the registry holds. */
const mutate = Effect.fnUntraced(function* (registry: RegistryService, random: SeededRandom) {
  for (let count = 0; count < mutations; count += 1) {
    const inventory = yield* registry.inventory
    const committed = new Map(
      Array.from(inventory, ([sandbox, record]) => [sandbox, JSON.stringify(record)] as const)
    )
    yield* drawMutation(random, committed, 1 + random.below(sandboxes)).mutate(registry)
  }
})

/** The daemon that begins, or migrates, and works, and the one after it. */
export const livesOf = (seed: number): ReadonlyArray<Effect.Effect<void, unknown, Ports>> => {
  const random = makeSeededRandom(seed)
  const first = Effect.gen(function* () {
    const registry = yield* makeRegistry(yield* openRegistry(), roomy)
    const states = yield* RunState
    yield* mutate(registry, random)
    yield* registry.admit(recordOf(8))
    yield* registry.update(removed, withDeletion)
    const proof = proofOf(removed)
    yield* states.publishTombstone(new Tombstone({ version: 1, sandbox: removed, proof }))
    yield* states.reclaim(removed)
    yield* registry.remove(proof)
  })
  const second = Effect.gen(function* () {
    yield* mutate(yield* makeRegistry(yield* openRegistry(), roomy), random)
  })
  return [first, second]
}

const [, program, stateDirectory, seed] = process.argv

if (program === import.meta.filename && stateDirectory !== undefined) {
  const inLifeOfItsOwn = (life: Effect.Effect<void, unknown, Ports>) =>
    Effect.scoped(
      Effect.flatMap(
        Layer.build(Layer.mergeAll(registryFiles(stateDirectory), runState({ stateDirectory }), identifiers)),
        (ports: Context.Context<Ports>) => Effect.provideContext(life, ports)
      )
    )
  await Effect.runPromise(Effect.forEach(livesOf(Number(seed)), inLifeOfItsOwn, { discard: true }))
}
