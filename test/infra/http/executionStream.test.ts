import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { ExecutionEvent } from "../../../src/domain/guests/GuestSpec.ts"
import { LeaseId, ProjectId } from "../../../src/domain/Identity.ts"
import { RuntimeNotRunning } from "../../../src/domain/leases/Lease.ts"
import type { ExecutionStarted } from "../../../src/domain/operations/runCommand.ts"
import { Conflict } from "../../../src/infra/http/ApiErrors.ts"
import { startedStream } from "../../../src/infra/http/executionStream.ts"
import { uuid } from "./scriptedServer.ts"

const started: ExecutionStarted = { _tag: "Started", execution: LeaseId.make(uuid(1)) }
const notRunning = new RuntimeNotRunning({ project: ProjectId.make(7), state: "stopped" })
const bytes = new Uint8Array([0, 255])

describe("executionStream", () => {
  it.effect("every event becomes its line, in order and once", () =>
    Effect.gen(function* () {
      const lines = yield* startedStream(
        Stream.make<ReadonlyArray<ExecutionStarted | ExecutionEvent>>(
          started,
          ExecutionEvent.cases.Output.make({ stream: "stderr", bytes }),
          ExecutionEvent.cases.Truncated.make({ stream: "stdout", bytesMax: 5 }),
          ExecutionEvent.cases.Exited.make({ exitCode: 3, ended: "timeout" })
        )
      )
      assert.deepStrictEqual(yield* Stream.runCollect(lines), [
        { type: "started", execution: started.execution },
        { type: "output", stream: "stderr", data: bytes },
        { type: "truncated", stream: "stdout", bytesMax: 5 },
        { type: "exited", exitCode: 3, ended: "timeout" }
      ])
    })
  )

  it.effect("a refusal before the start is an error of the request and not a line", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(startedStream(Stream.fail(notRunning)))
      assert.instanceOf(error, Conflict)
      assert.deepStrictEqual(
        [error.code, error.details],
        ["runtime_not_running", { project: 7, state: "stopped" }]
      )
    })
  )

  it.effect("a failure after the start is the last line, and tells nothing that the table does not", () =>
    Effect.gen(function* () {
      const known = yield* startedStream(Stream.concat(Stream.make(started), Stream.fail(notRunning)))
      assert.deepStrictEqual((yield* Stream.runCollect(known)).at(-1), {
        type: "failed",
        code: "runtime_not_running",
        message: notRunning.message
      })
      const foreign = { code: "foreign", message: "canary" }
      const unknown = yield* startedStream(Stream.concat(Stream.make(started), Stream.fail(foreign)))
      const last = (yield* Stream.runCollect(unknown)).at(-1)
      assert.notInclude(JSON.stringify(last), "canary")
      assert.strictEqual(last?.type, "failed")
    })
  )

  it.effect("the command ends with the request's scope, even when nobody reads its lines", () =>
    Effect.gen(function* () {
      const ended = yield* Deferred.make<void>()
      const events = Stream.concat(Stream.make(started), Stream.never).pipe(
        Stream.ensuring(Deferred.succeed(ended, undefined))
      )
      const scope = yield* Scope.make()
      yield* Scope.provide(startedStream(events), scope)
      assert.isFalse(yield* Deferred.isDone(ended))
      yield* Scope.close(scope, Exit.void)
      assert.isTrue(yield* Deferred.isDone(ended))
    })
  )
})
