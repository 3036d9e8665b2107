/**
 * The commands below `ops` and `leases`, and `history`: flags and help. What they do is told by ops.ts, leases.ts and
 * history.ts, which are loaded when one of them is run.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { Metric, Resolution } from "../../domain/history/History.ts"
import type * as Leases from "./leases.ts"
import type * as Ops from "./ops.ts"
import type { Place } from "./place.ts"
import { load, projectArgument, running, undefinedOr } from "./root.ts"

type OpsVerbs = typeof Ops
type LeaseVerbs = typeof Leases

const ops = <A, E, R>(verb: (verbs: OpsVerbs, place: Place) => Effect.Effect<A, E, R>) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./ops.ts")),
      (verbs) => verb(verbs, place)
    )
  )

const leasing = <A, E, R>(verb: (verbs: LeaseVerbs, place: Place) => Effect.Effect<A, E, R>) =>
  running((place) =>
    Effect.flatMap(
      load(() => import("./leases.ts")),
      (verbs) => verb(verbs, place)
    )
  )

const operationArgument = Argument.String("operation").pipe(Argument.withDescription("Id of the operation"))

const list = Command.make("list", { project: projectArgument }, ({ project }) =>
  ops((verbs, place) => verbs.listOperations(place, project))
).pipe(Command.withDescription("List the Project's operations, newest first, with what each one waits for"))

const show = Command.make("show", { operation: operationArgument }, ({ operation }) =>
  ops((verbs, place) => verbs.showOperation(place, operation))
).pipe(Command.withDescription("Show one operation: how far it is, or what it waits for and since when"))

const watch = Command.make("watch", { operation: operationArgument }, ({ operation }) =>
  ops((verbs, place) => verbs.watchOperation(place, operation))
).pipe(Command.withDescription("Follow an operation to its end: 0 when it succeeds, else 1"))

const supersede = Command.make("supersede", { operation: operationArgument }, ({ operation }) =>
  ops((verbs, place) => verbs.supersedeOperation(place, operation))
).pipe(
  Command.withDescription(
    "Take a queued operation back, or one whose node is not seen, once its claim comes back; 5 when it is at work or settled"
  )
)

const why = Command.make("why", { operation: operationArgument }, ({ operation }) =>
  ops((verbs, place) => verbs.showOperationWhy(place, operation))
).pipe(
  Command.withDescription(
    "Tell the chain from the request to the end: admission, claims, steps, machines and proofs of absence"
  )
)

export const operations = Command.make("ops").pipe(
  Command.withDescription("List, show, watch, explain and take back operations"),
  Command.withSubcommands([list, show, watch, supersede, why])
)

const listLeases = Command.make("list", { project: projectArgument }, ({ project }) =>
  leasing((verbs, place) => verbs.listLeases(place, project))
).pipe(Command.withDescription("List what runs inside the Project's sandbox now"))

const cancelLeases = Command.make("cancel", { project: projectArgument }, ({ project }) =>
  leasing((verbs, place) => verbs.cancelLeases(place, project))
).pipe(Command.withDescription("Ask everything that runs inside the Project's sandbox to end"))

export const leases = Command.make("leases").pipe(
  Command.withDescription("List and cancel what runs inside a Project's sandbox"),
  Command.withSubcommands([listLeases, cancelLeases])
)

const moment = (name: string, description: string) =>
  Flag.String(name).pipe(
    Flag.optional,
    Flag.withMetavar("MOMENT"),
    Flag.withDescription(`${description}: ISO 8601, or milliseconds since the epoch`)
  )

export const history = Command.make(
  "history",
  {
    project: projectArgument,
    metric: Flag.Literals("metric", Metric.literals).pipe(
      Flag.optional,
      Flag.withDescription("Only this metric")
    ),
    resolution: Flag.Literals("resolution", Resolution.literals).pipe(
      Flag.optional,
      Flag.withDescription("Buckets of a `minute`, kept for a day, or of an `hour`, kept for thirty days")
    ),
    from: moment("from", "The first bucket is the one of this moment or later"),
    to: moment("to", "The last bucket begins before this moment")
  },
  (flags) =>
    running((place) =>
      Effect.flatMap(
        load(() => import("./history.ts")),
        (verbs) =>
          verbs.showHistory(place, {
            project: flags.project,
            metric: undefinedOr(flags.metric),
            resolution: undefinedOr(flags.resolution),
            from: undefinedOr(flags.from),
            to: undefinedOr(flags.to)
          })
      )
    )
).pipe(
  Command.withDescription("Show what a Project used: a chart of the newest minutes, or a range of buckets")
)
