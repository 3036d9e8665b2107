/**
 * Desktops over scripted guests and displays on a clone: a display is an execution that runs until it is ended, whoever
 * asks it is answered by a script, and every statement can be counted, held before it is sent, and held behind its answer.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { Desktops } from "../../../src/domain/desktop/Desktops.ts"
import { Displays } from "../../../src/domain/desktop/Displays.ts"
import { type ExecutionEvent, GuestCommand } from "../../../src/domain/guests/GuestSpec.ts"
import { LeaseStore } from "../../../src/domain/leases/LeaseStore.ts"
import { Generation, type ProjectId } from "../../../src/domain/Identity.ts"
import type { PluginDb } from "../../../src/domain/persistence/PluginDb.ts"
import { MachineRecipe } from "../../../src/domain/runtimes/Runtime.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import type { ScriptedState } from "../../../src/infra/guests/scriptedState.ts"
import { makeBarrier } from "../../support/sideBySide.ts"
import { waitFor } from "../../support/waiting.ts"
import { fixtureOver, provisioned, Scripted } from "../removal/fixture.ts"

export interface Steering {
  /** Names of the statements and transactions that were begun, in order. */
  readonly begun: Array<string>
  /** What is waited for before, and behind, each statement or transaction of that name. */
  readonly before: Map<string, Effect.Effect<void>>
  readonly behind: Map<string, Effect.Effect<void>>
  /** Whether a display answers. */
  answers: Effect.Effect<boolean>
  /** What a viewer's connection to a display waits for. */
  connecting: Effect.Effect<void>
  /** How many displays run now, and what the end of one waits for. */
  running: number
  ending: Effect.Effect<void>
}

/** What the tests of a file steer; each of them has it for itself, since they run one after the other. */
export class Steered extends Context.Service<Steered, Steering>()(
  "holdfast/test/domain/desktop/fixture/Steered"
) {}

const makeSteering = (): Steering => ({
  begun: [],
  before: new Map(),
  behind: new Map(),
  answers: Effect.succeed(true),
  connecting: Effect.void,
  running: 0,
  ending: Effect.void
})

const command = new GuestCommand({
  argv: ["display"],
  environment: {},
  workingDirectory: "/workspace",
  standardInput: null,
  timeoutMillis: 60_000
})

export const missingStatus = 71

const displays = (steering: Steering) =>
  Layer.succeed(
    Displays,
    Displays.of({
      command,
      port: 5901,
      name: ":1",
      whyMissing: (exitCode) => (exitCode === missingStatus ? "its guest has no display" : null),
      answers: () => Effect.suspend(() => steering.answers),
      connect: () =>
        Effect.as(
          Effect.suspend(() => steering.connecting),
          { incoming: Stream.never, write: () => Effect.void }
        )
    })
  )

const steeredDb =
  (steering: Steering) =>
  (db: PluginDb["Service"]): PluginDb["Service"] => {
    const steer = <A, E, R>(operation: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.suspend(() => {
        const held = steering.before.get(operation) ?? Effect.void
        steering.begun.push(operation)
        return Effect.andThen(held, effect).pipe(
          Effect.tap(() => steering.behind.get(operation) ?? Effect.void)
        )
      })
    return {
      ...db,
      query: (query) => steer(query.operation, db.query(query)),
      transaction: (operation, body) => steer(operation, db.transaction(operation, body)),
      snapshot: (operation, body) => steer(operation, db.snapshot(operation, body)),
      pipelined: (operation, queries) => steer(operation, db.pipelined(operation, queries))
    }
  }

export const fixture = Layer.suspend(() => {
  const steering = makeSteering()
  return Layer.merge(
    fixtureOver({ displays: displays(steering), observe: steeredDb(steering) }),
    Layer.succeed(Steered, steering)
  )
})

/** An execution that runs until it is ended; its end waits for `ending`. */
const runningDisplay = (steering: Steering) =>
  Effect.acquireUseRelease(
    Effect.sync(() => void (steering.running += 1)),
    () => Effect.never,
    () =>
      Effect.andThen(
        Effect.suspend(() => steering.ending),
        Effect.sync(() => void (steering.running -= 1))
      )
  )

/** What displays do from now on; other commands are carried out as they were. */
export const playDisplay = (guests: ScriptedState, display: Effect.Effect<ReadonlyArray<ExecutionEvent>>) => {
  const others = guests.commandScript
  guests.commandScript = (sandbox, asked) =>
    asked.argv[0] === command.argv[0] ? display : others(sandbox, asked)
}

/** Runs a test with desktops of a boot of its own, and displays that run; nothing of the steering is left from before. */
export const onBoot = <A, E, R>(test: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const steering = yield* Steered
    const { guests } = yield* Scripted
    Object.assign(steering, makeSteering())
    const others = guests.commandScript
    yield* Effect.addFinalizer(() => Effect.sync(() => void (guests.commandScript = others)))
    playDisplay(guests, runningDisplay(steering))
    return yield* test.pipe(Effect.scoped, Effect.provide(Layer.fresh(Desktops.layer)))
  }).pipe(Effect.scoped)

/** A Project whose machine runs. */
export const machineOf = provisioned

/** Holds whoever comes to that point of a statement: once, the first one. */
export const heldAt = Effect.fnUntraced(function* (side: "before" | "behind", operation: string) {
  const steering = yield* Steered
  const barrier = yield* makeBarrier(`${side} ${operation}`)
  const once = Effect.suspend(() => {
    steering[side].delete(operation)
    return barrier.arrive
  })
  steering[side].set(operation, once)
  return barrier
})

export const leasesOf = (project: ProjectId) =>
  Effect.flatMap(LeaseStore, (store) => store.ofProject(project))

/** The code of a refusal, or `done`. */
export const codeOf = (exit: Exit.Exit<unknown, { readonly code?: string }>): string =>
  Exit.isSuccess(exit)
    ? "done"
    : exit.cause.reasons.map((each) => (each._tag === "Fail" ? each.error.code : each._tag)).join()

/** What is refused of what is asked. */
export const refusalOf = <A, E extends { readonly code?: string }, R>(asked: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.exit(asked), codeOf)

/** The row alone: nobody has cancelled, or ended, what ran in the machine of before. */
export const replaceUnannounced = ({ project }: { readonly project: ProjectId }) =>
  Effect.gen(function* () {
    const store = yield* RuntimeStore
    const { generation, recipe } = Option.getOrThrow(yield* store.runtime(project))
    if (recipe === null) return yield* Effect.die(new Error("the runtime has no machine"))
    const next = new MachineRecipe({ ...recipe, generation: Generation.make(generation + 1) })
    const isMoved = yield* store.replaceMachine(project, { from: generation, recipe: next })
    if (!isMoved) return yield* Effect.die(new Error("the row did not move"))
    // It goes into hooks that cannot fail: a database that is away is the test's fault.
  }).pipe(Effect.orDie)

/** Waits until one display runs, no more and no less: a scripted one answers before its execution has begun. */
export const oneRuns = Effect.flatMap(Steered, (steering) =>
  waitFor({
    fact: "one display runs",
    look: Effect.sync(() => steering.running),
    holds: (running) => running === 1
  })
)
