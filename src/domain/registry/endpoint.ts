/**
 * Where a port of a sandbox can be reached. Every look-up asks the kernel and the bridge anew; nothing that was seen
 * before is an answer, and no endpoint is told of a sandbox whose deletion is intended. Source: RG-RUN-01, RG-RUN-04.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { SandboxId } from "../Identity.ts"
import { requireOwnGuest } from "./ownGuest.ts"
import { requireRunning } from "./readiness.ts"
import { Registry } from "./Registry.ts"
import { InvalidSandboxRequest } from "./sandboxRequest.ts"

const isPort = Schema.is(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 65_535 })))

const openOwnPort = Effect.fnUntraced(function* (sandbox: SandboxId, port: number) {
  const supervisor = yield* GuestSupervisor
  const { endpointToken: token } = yield* requireOwnGuest(sandbox, "endpoint")
  const path = yield* supervisor.openPort(sandbox, { port, token })
  // An intent to delete that was made durable meanwhile fences what was just opened.
  yield* requireRunning(sandbox, "endpoint")
  return { path }
})

/**
 * Answers the path of a UNIX socket that leads to the TCP port of the sandbox's loopback. Refused with
 * `InvalidSandboxRequest` when the port is not one of 1 to 65,535, with `SandboxStateRefused` or `SandboxExpired` unless
 * it runs and is kept, with `EndpointUnavailable` when its own guest is not there.
 */
export const lookUpEndpoint = Effect.fn("registry.lookUpEndpoint")(function* (
  sandbox: SandboxId,
  port: number
) {
  const registry = yield* Registry
  if (!isPort(port)) {
    return yield* new InvalidSandboxRequest({ field: "port", why: "must be a whole number from 1 to 65,535" })
  }
  return yield* registry.exclusive(sandbox, openOwnPort(sandbox, port))
})
