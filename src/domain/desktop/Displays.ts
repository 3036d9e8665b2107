/**
 * Port of the displays that guests carry: which program one is, and how it is reached. A display is a command in a guest
 * like the others, so that it is charged to the guest, bound to its execution, and ended with it. It listens on the guest's
 * loopback, which is reached only through an endpoint that was proved. Source: SP-DESK-05.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { GuestCommand } from "../guests/GuestSpec.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"

/** The connection to a display has broken, or never was. */
export class DisplayLost extends Data.TaggedError("DisplayLost") {
  readonly code = "display_lost"
  override get message(): string {
    return "the connection to the display has ended"
  }
}

/** One viewer's connection to a display, as bytes of its protocol; nothing of them is read here. */
export interface DisplayConnection {
  readonly incoming: Stream.Stream<Uint8Array, DisplayLost>
  /** Returns once the bytes are taken: a display that does not read holds its viewer up. */
  readonly write: (bytes: Uint8Array) => Effect.Effect<void, DisplayLost>
}

export class Displays extends Context.Service<
  Displays,
  {
    /** Becomes the display in a guest, and runs until it is ended. */
    readonly command: GuestCommand
    /** Port of the guest's loopback on which it listens. */
    readonly port: number
    /** Its name for programs in the guest. */
    readonly name: string
    /** What a command that ended with this status says that the guest lacks; null: nothing that it knows of. */
    readonly whyMissing: (exitCode: number) => string | null
    /** Whether a display answers behind the socket, within `displayAnswerMillisMax`. */
    readonly answers: (path: string) => Effect.Effect<boolean>
    /** A connection of its own for one viewer, open while the scope is. */
    readonly connect: (path: string) => Effect.Effect<DisplayConnection, DisplayLost, Scope.Scope>
  }
>()("holdfast/domain/desktop/Displays") {
  declare readonly [OutsideTransaction]: true
}
