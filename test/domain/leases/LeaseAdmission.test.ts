/** The admission of an execution beside a deletion of its Project, in both orders, on two connections. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { holding, untilWaiting } from "../../infra/postgres/lockWaits.ts"
import { admitShell, asProcess, leaseRows, onClone, seedRuntime, someProcess, sql } from "./fixture.ts"

const deleting = "update core.projects set lifecycle = 'deleting' where id = $1::bigint"

describe("the admission of an execution", () => {
  it.live(
    "SP-ADM-01 SP-ADM-02 that has the Project first makes a deletion wait, which then sees its lease",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        const { project } = runtime
        // It has the Project and waits for the runtime: so the Project came first.
        const holder = yield* holding("select from runtimes where project_id = $1::bigint for update", [
          project
        ])
        const admitting = yield* Effect.forkChild(admitShell(runtime).pipe(asHolder))
        yield* untilWaiting("runtimes", 1)
        const deletion = yield* Effect.forkChild(sql(deleting, [project]))
        yield* untilWaiting("core.projects", 2)
        yield* holder.release
        const { lease } = yield* Fiber.join(admitting)
        yield* Fiber.join(deletion)
        assert.deepStrictEqual(
          (yield* leaseRows).map(({ id }) => id),
          [lease.id]
        )
      }).pipe(onClone)
  )

  it.live(
    "SP-ADM-01 SP-ADM-02 SP-ADM-03 that comes behind a deletion waits without any row of ours, and is refused",
    () =>
      Effect.gen(function* () {
        const asHolder = yield* asProcess(someProcess())
        const runtime = yield* seedRuntime()
        const { project } = runtime
        const holder = yield* holding(deleting, [project])
        const admitting = yield* Effect.forkChild(Effect.flip(admitShell(runtime).pipe(asHolder)))
        yield* untilWaiting("core.projects", 1)
        const free = "select project_id from runtimes where project_id = $1::bigint for update skip locked"
        assert.lengthOf(yield* sql(free, [project]), 1, "the runtime's row is nobody's")
        yield* holder.release
        assert.deepInclude(yield* Fiber.join(admitting), { code: "project_not_active" })
        assert.deepStrictEqual(yield* leaseRows, [])
      }).pipe(onClone)
  )
})
