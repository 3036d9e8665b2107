/**
 * A daemon is really killed in every window of an acquisition, a release and a cleanup, while a real worker process carries
 * the provider: a later daemon leaves nothing at the provider, and no row that owes anything.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { KillPoint } from "../../support/killingObserver.ts"
import { waitFor } from "../../support/waiting.ts"
import { newAgent, newEnvironment, newRun, newTenant, onClone } from "./fixture.ts"
import { type Order, runLeaseProcess, startLeaseProcess } from "./leaseProcesses.ts"
import { leaseRowsOf, sql, value } from "./rawRows.ts"
import { installScripted, orderFaults, resourcesIn, stateDirectory } from "./scriptedProvider.ts"

const testMillisMax = 120_000
const killedAtOnce = 2

/** What is there: intents, resources at the provider, and the status of each row. */
interface Found {
  readonly intents: number
  readonly resources: number
  readonly rows: ReadonlyArray<string>
}

type Window = readonly [boundary: KillPoint["boundary"], step: string, left: Found]

const nothing: Found = { intents: 0, resources: 0, rows: [] }

/** An environment of its own for each window, so that each is looked at by itself. */
const place = Effect.gen(function* () {
  const tenant = yield* newTenant
  const run = (yield* newRun(tenant, (yield* newAgent(tenant)).id)).id
  const directory = yield* stateDirectory
  const config = { provider: "scripted", stateDirectory: directory }
  const environment = (yield* newEnvironment("sandbox", config)).id
  const found = Effect.gen(function* () {
    const intents = yield* value("select count(*) from provider_intents where environment_id = $1::uuid", [
      environment
    ])
    const rows = yield* leaseRowsOf(environment)
    const resources = Object.keys(resourcesIn(directory)).length
    return {
      intents: Number(intents),
      resources,
      rows: rows.map(({ status }) => String(status))
    } satisfies Found
  })
  return { tenant, run, directory, environment, found }
})

/** The runs were over, the intents are old and the claims have expired an hour ago. */
const anHourLater = Effect.gen(function* () {
  yield* sql("update provider_intents set created_at = created_at - interval '1 hour'")
  yield* sql("update core.runs set status = 'failed', finished_at = now() - interval '1 hour'")
  yield* sql(`update environment_leases set metadata = jsonb_set(metadata, '{pendingCleanupLeaseExpiresAtMs}',
    to_jsonb((metadata ->> 'pendingCleanupLeaseExpiresAtMs')::bigint - 3600000))
    where metadata ? 'pendingCleanupLeaseExpiresAtMs'`)
})

const stepsIn = (output: string): unknown => {
  const told: { readonly steps?: unknown } = JSON.parse(output.trim().split("\n").at(-1) ?? "{}")
  return told.steps
}

/** Kills a process in each window, has a later one recover, and looks at every place. */
const killInEvery = (
  action: Order["action"],
  program: string,
  steps: ReadonlyArray<string>,
  windows: ReadonlyArray<Window>
) =>
  Effect.gen(function* () {
    yield* installScripted
    const unharmed = yield* place
    const whole = yield* runLeaseProcess({ ...unharmed, action })
    assert.strictEqual(whole.ended, 0, whole.output)
    assert.deepStrictEqual(stepsIn(whole.output), steps)
    const named = windows.map(([boundary, step]) => `${boundary} ${step}`)
    const own = steps.filter((step) => step.startsWith(program)).map((step) => step.split(": ")[1])
    assert.includeMembers(
      named,
      own.flatMap((step) => [`before ${step}`, `after ${step}`]),
      "every window of the program is tried"
    )
    const places = yield* Effect.forEach(
      windows,
      Effect.fnUntraced(function* ([boundary, step, left]) {
        const own = yield* place
        const killAt = { boundary, program, step, occurrence: 1 }
        const { ended, output } = yield* runLeaseProcess({ ...own, action, killAt })
        assert.strictEqual(ended, "SIGKILL", output)
        assert.deepStrictEqual(yield* own.found, left, `killed ${boundary} ${step}`)
        return own
      }),
      { concurrency: killedAtOnce }
    )
    yield* recoverAndLook([unharmed, ...places])
  })

const recoverAndLook = (places: ReadonlyArray<Effect.Success<typeof place>>) =>
  Effect.gen(function* () {
    yield* anHourLater
    const recovery = yield* runLeaseProcess({ ...places[0]!, action: "recover" })
    assert.strictEqual(recovery.ended, 0, recovery.output)
    for (const { found } of places) {
      const { rows, ...left } = yield* found
      assert.deepStrictEqual(left, { intents: 0, resources: 0 }, recovery.output)
      assert.includeMembers(["expired", "released"], [...rows], recovery.output)
    }
  })

const acquired = ["intent", "create", "row"].map((step) => `runLeases.provision: ${step}`)

describe("kill -9 in every window", () => {
  it.live(
    "FC-02 BX-01 of an acquisition: a later daemon finds what was made, and removes it",
    () =>
      killInEvery("acquire", "runLeases.provision", acquired, [
        ["before", "intent", nothing],
        ["after", "intent", { ...nothing, intents: 1 }],
        ["before", "create", { ...nothing, intents: 1 }],
        ["after", "create", { intents: 1, resources: 1, rows: [] }],
        ["before", "row", { intents: 1, resources: 1, rows: [] }],
        ["after", "row", { intents: 0, resources: 1, rows: ["active"] }]
      ]).pipe(onClone),
    testMillisMax
  )

  it.live(
    "FC-02 BX-01 while the provider's answer is out",
    () =>
      Effect.gen(function* () {
        yield* installScripted
        const own = yield* place
        yield* orderFaults(own.directory, { environmentAcquireLease: [{ fault: "lost" }] })
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* startLeaseProcess({ ...own, action: "acquire" })
            yield* waitFor({
              fact: "the resource is there",
              look: Effect.sync(() => Object.keys(resourcesIn(own.directory)).length),
              holds: (resources) => resources === 1,
              deadlineMillis: testMillisMax
            })
          })
        )
        assert.deepStrictEqual(yield* own.found, { intents: 1, resources: 1, rows: [] })
        yield* recoverAndLook([own])
      }).pipe(onClone),
    testMillisMax
  )

  it.live(
    "FC-02 of a release that hands the resource back",
    () =>
      killInEvery(
        "hand back",
        "runLeases.handBack",
        [...acquired, "runLeases.handBack: call", "runLeases.handBack: row"],
        [
          ["before", "call", { intents: 0, resources: 1, rows: ["active"] }],
          ["after", "call", { intents: 0, resources: 0, rows: ["active"] }],
          ["before", "row", { intents: 0, resources: 0, rows: ["active"] }],
          ["after", "row", { intents: 0, resources: 0, rows: ["released"] }]
        ]
      ).pipe(onClone),
    testMillisMax
  )

  it.live(
    "FC-02 of a cleanup: after the claim, after the provider's destroy, before the settlement",
    () =>
      killInEvery(
        "destroy",
        "runLeases.tearDown",
        [...acquired, ...["claim", "call", "settle"].map((step) => `runLeases.tearDown: ${step}`)],
        [
          ["before", "claim", { intents: 0, resources: 1, rows: ["active"] }],
          ["after", "claim", { intents: 0, resources: 1, rows: ["pending_cleanup"] }],
          ["before", "call", { intents: 0, resources: 1, rows: ["pending_cleanup"] }],
          ["after", "call", { intents: 0, resources: 0, rows: ["pending_cleanup"] }],
          ["before", "settle", { intents: 0, resources: 0, rows: ["pending_cleanup"] }],
          ["after", "settle", { intents: 0, resources: 0, rows: ["expired"] }]
        ]
      ).pipe(onClone),
    testMillisMax
  )
})
