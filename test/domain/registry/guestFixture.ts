/**
 * A node for tests of the registry's programs: a real registry and real run state in a temporary directory, over
 * scripted guests that outlive a restart of the node.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { GuestIdentity, GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import type { Identifiers } from "../../../src/domain/Identifiers.ts"
import { Generation } from "../../../src/domain/Identity.ts"
import type { RunState } from "../../../src/domain/reclamation/RunState.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import type { SandboxRequest } from "../../../src/domain/registry/sandboxRequest.ts"
import * as RunStateFiles from "../../../src/infra/filesystem/RunState.ts"
import { makeScriptedState, type ScriptedState } from "../../../src/infra/guests/scriptedState.ts"
import { layerScripted } from "../../../src/infra/guests/scriptedSupervisor.ts"
import { layer as identifiers } from "../../../src/infra/Identifiers.ts"
import { type Disk, makeDisk, openOn, type OpenOptions, sandboxOf, temporaryDirectory } from "./fixture.ts"

export type NodeServices = Registry | RunState | GuestSupervisor | Identifiers

export interface TestNode {
  readonly directory: string
  readonly disk: Disk
  readonly guests: ScriptedState
  readonly registry: Registry["Service"]
  readonly context: Context.Context<NodeServices>
}

/** Opens a node over the directory and the guests; what it opens goes with the scope. */
export const openNode = (
  directory: string,
  guests: ScriptedState,
  options: Omit<OpenOptions, "disk"> & {
    readonly supervisor?: (real: GuestSupervisor["Service"]) => GuestSupervisor["Service"]
  } = {}
) =>
  Effect.gen(function* () {
    const disk = makeDisk()
    const registry = yield* openOn(directory, { ...options, disk })
    disk.calls.length = 0
    const base = yield* Layer.build(
      Layer.mergeAll(
        layerScripted(guests),
        RunStateFiles.layer({ stateDirectory: directory }),
        identifiers,
        Layer.succeed(Registry, registry)
      )
    )
    const supervisor = Context.get(base, GuestSupervisor)
    const context = Context.add(base, GuestSupervisor, options.supervisor?.(supervisor) ?? supervisor)
    return { directory, disk, guests, registry, context } satisfies TestNode
  })

/** A fresh node in a directory of its own. */
export const freshNode = (options: Parameters<typeof openNode>[2] = {}) =>
  Effect.flatMap(temporaryDirectory, (directory) => openNode(directory, makeScriptedState(), options))

/** Runs a program of the domain on the node. */
export const on =
  (node: TestNode) =>
  <A, E>(program: Effect.Effect<A, E, NodeServices>): Effect.Effect<A, E> =>
    Effect.provideContext(program, node.context)

export const requestOf = (number: number, fields: Partial<SandboxRequest> = {}): SandboxRequest => ({
  id: sandboxOf(number),
  generation: Generation.make(1),
  image: "host",
  argv: [],
  environment: { TOKEN: "s3cret", A: "1" },
  metadata: {},
  cpuMillis: 100,
  memoryBytes: 1_024,
  processesMax: 64,
  disk: null,
  lifeSeconds: 600,
  ...fields
})

/** The guest's identity under another attempt: a guest that the record does not know. */
export const becomeStranger = (guests: ScriptedState, number: number): void => {
  const guest = guests.guests.get(sandboxOf(number))!
  guests.guests.set(sandboxOf(number), {
    ...guest,
    identity: new GuestIdentity({ ...guest.identity, attemptId: "another" })
  })
}
