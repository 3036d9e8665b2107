/** On which terms the node's API is served: what the daemon that serves it has been told. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

export class NodeTerms extends Context.Service<
  NodeTerms,
  {
    readonly version: string
    /** Who everybody at the socket is: recorded with what he asks for. */
    readonly actor: string
    /** The longest life that a request may ask for. */
    readonly lifeSecondsMax: number
    /** Whether the first look at what the last daemon left has been taken. */
    readonly isSettled: Effect.Effect<boolean>
  }
>()("holdfast/infra/http/node/NodeTerms") {}
