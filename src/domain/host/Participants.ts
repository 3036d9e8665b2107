/**
 * Who takes part in deleting a Project: owners of things that belong to it, registered while plugins load. Service
 * participants come first, in the order of their registration; the storage owner comes last. Source: SP-DEL-01,
 * SP-DEL-12.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { ProjectId } from "../Identity.ts"

/** What an owner would remove: canonical paths, and labels for people. */
export interface ParticipantDescription {
  readonly paths: ReadonlyArray<string>
  readonly labels: ReadonlyArray<string>
}

/** What an owner has removed, with a sentence for each absence that it proved. */
export interface ParticipantRemoval {
  readonly paths: ReadonlyArray<string>
  readonly proofs: ReadonlyArray<string>
}

/** Why an owner could not describe or remove. The code is stable and reaches the deletion record. */
export interface ParticipantError {
  readonly _tag: string
  readonly code: string
  readonly message: string
}

export interface Participant {
  /** Name of its step in the deletion record, such as `plugin:sandbox`. */
  readonly name: string
  readonly phase: "service" | "storage"
  readonly describe: (project: ProjectId) => Effect.Effect<ParticipantDescription, ParticipantError>
  /** Repeatable: what was removed before is not removed again. */
  readonly remove: (project: ProjectId) => Effect.Effect<ParticipantRemoval, ParticipantError>
}

export class Participants extends Context.Service<
  Participants,
  {
    /** A name that is registered already is a mistake of the plugin's author. */
    readonly register: (participant: Participant) => Effect.Effect<void>
    /** Service participants first, the storage owner last. */
    readonly inOrder: Effect.Effect<ReadonlyArray<Participant>>
  }
>()("holdfast/domain/host/Participants") {
  static readonly layer: Layer.Layer<Participants> = Layer.sync(Participants, () => {
    const registered: Array<Participant> = []
    return {
      register: (participant) =>
        Effect.suspend(() => {
          if (registered.some((each) => each.name === participant.name))
            return Effect.die(new Error(`participant ${participant.name} is registered twice`))
          registered.push(participant)
          return Effect.void
        }),
      inOrder: Effect.sync(() => [
        ...registered.filter((each) => each.phase === "service"),
        ...registered.filter((each) => each.phase === "storage")
      ])
    }
  })
}
