/**
 * From the body of a creation to the domain's request: quantities read, defaults filled in, the sandbox's id made of
 * the key, and the hash by which a repeated request is known. Pure. Source: RG figures.
 */
import { createHash } from "node:crypto"
import * as Result from "effect/Result"
import { runtimeProcessesDefault, sandboxLifeSecondsDefault } from "../../../domain/Bounds.ts"
import { Generation, type NodeId, type RequestKey, type SandboxId } from "../../../domain/Identity.ts"
import { readCpuMillis, readMemoryBytes } from "../../../domain/registry/quantity.ts"
import type { KeyedRequest } from "../../../domain/registry/requestedCreation.ts"
import { sandboxOfDigest } from "../../../domain/registry/sandboxOfDigest.ts"
import { findLifeFault, InvalidSandboxRequest, requestText } from "../../../domain/registry/sandboxRequest.ts"
import type { SandboxCreation } from "./NodeApi.ts"

const firstGeneration = Generation.make(1)

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex")

/** The sandbox that belongs to a key of a node: always the same one. */
export const sandboxOfKey = (node: NodeId, key: RequestKey): SandboxId =>
  sandboxOfDigest(digestOf(`holdfast sandbox\n${node}\n${key}`))

interface Terms {
  readonly node: NodeId
  readonly actor: string
  readonly lifeSecondsMax: number
}

const quantity = (field: string, read: Result.Result<number, string>) =>
  Result.mapError(read, (why) => new InvalidSandboxRequest({ field, why }))

/** The request that a body means, or the field that cannot be read; what is absurd otherwise is refused at admission. */
export const keyedRequest = (
  body: SandboxCreation,
  { actor, lifeSecondsMax, node }: Terms
): Result.Result<KeyedRequest, InvalidSandboxRequest> =>
  Result.gen(function* () {
    const asked = {
      generation: firstGeneration,
      image: body.image ?? "host",
      argv: body.argv ?? [],
      environment: body.environment ?? {},
      metadata: body.metadata ?? {},
      cpuMillis: yield* quantity("resources.cpu", readCpuMillis(body.resources.cpu)),
      memoryBytes: yield* quantity("resources.memory", readMemoryBytes(body.resources.memory)),
      processesMax: body.processesMax ?? runtimeProcessesDefault,
      disk: null,
      lifeSeconds: body.lifeSeconds ?? Math.min(lifeSecondsMax, sandboxLifeSecondsDefault)
    }
    const request: KeyedRequest = {
      ...asked,
      id: sandboxOfKey(node, body.requestId),
      origin: { key: body.requestId, hash: digestOf(requestText(asked)), actor, startedAtMillis: null }
    }
    const fault = findLifeFault(asked.lifeSeconds, lifeSecondsMax)
    return fault === null ? request : yield* Result.fail(fault)
  })
