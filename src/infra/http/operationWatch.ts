/**
 * Watching one operation to its end. A watcher is told what the rows say; the signals of this process only tell when
 * to look again, so one that was missed costs a tick and nothing else. Source: SP-TX-09.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { operationWatchMillis } from "../../domain/Bounds.ts"
import { type Operation, settledStates } from "../../domain/operations/Operation.ts"
import { OperationEvents } from "../../domain/operations/OperationEvents.ts"
import { OperationStore } from "../../domain/operations/OperationStore.ts"
import { operationViews } from "./operationViews.ts"
import { operationView } from "./present.ts"
import { ServerStopping } from "./socketServer.ts"
import type { OperationView } from "./Views.ts"

const isSettled = (operation: Operation): boolean => settledStates.includes(operation.state)

const sameState = (one: OperationView, other: OperationView): boolean =>
  one.state === other.state &&
  one.step === other.step &&
  one.fraction === other.fraction &&
  one.message === other.message &&
  one.waiting?.for === other.waiting?.for

/** A look into the queue that fails shows the operation as if it waited for nothing; the next one makes up for it. */
const shown = (operation: Operation) =>
  operationViews([operation]).pipe(
    Effect.map(([view]) => view ?? operationView(operation)),
    Effect.orElseSucceed(() => operationView(operation))
  )

/**
 * The row now and after every change, until it has settled. Reads again at each signal of this process and every
 * `operationWatchMillis`, since another process may carry the operation out. A read that fails is made up for by the next.
 */
export const watchOperation = (first: Operation) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const events = yield* OperationEvents
      const store = yield* OperationStore
      const stopping = yield* ServerStopping
      const signals = Stream.fromSubscription(yield* events.subscribe).pipe(
        Stream.filter(({ operation }) => operation === first.id)
      )
      const later = Stream.merge(signals, Stream.tick(operationWatchMillis)).pipe(
        Stream.mapEffect(() => Effect.option(store.byId(first.id))),
        Stream.flatMap((read) => Stream.fromIterable(Option.toArray(Option.flatten(read))))
      )
      return Stream.concat(Stream.succeed(first), later).pipe(
        Stream.takeUntil(isSettled),
        Stream.mapEffect(shown),
        Stream.changesWith(sameState),
        Stream.interruptWhen(stopping.await)
      )
    })
  )
