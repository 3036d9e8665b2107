/**
 * Leases and repository claims against their oracle: generated commands of several daemons on two nodes go to both, and
 * what is stored is compared after each of them, as is what each holder believes. The run is not over until every
 * command has succeeded at least once. Clocks stand still but for the commands that move them.
 *
 *     HOLDFAST_MODEL_COMMANDS   how many (1,000 in the suite)      HOLDFAST_MODEL_SEED   which ones
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { executionLeaseSeconds } from "../../src/domain/Bounds.ts"
import { fixture, sql } from "../domain/leases/fixture.ts"
import { commands, ends } from "./leaseCommands.ts"
import { LeaseRun } from "./leaseRun.ts"

const commandsMin = Number(process.env["HOLDFAST_MODEL_COMMANDS"] ?? 1_000)
const seed = Number(process.env["HOLDFAST_MODEL_SEED"] ?? 20_261_130)
/** Far more than any seed needs until every command has succeeded once. */
const commandsMax = commandsMin * 5
/** Many times what a command takes on an idle machine. */
const millisOfCommandMax = 60

const lineOf = (row: Readonly<Record<string, unknown>>) =>
  `${String(row["name"])}: generation ${String(row["generation"])} by ${String(row["process"])}, ${String(row["cancel"])}${row["isSilent"] === true ? ", silent" : ""}`

const oracleState = ({ oracle }: LeaseRun) => oracle.rows.map((row) => lineOf({ ...row })).toSorted()

const silent = `heartbeat_at < now() - make_interval(secs => ${executionLeaseSeconds})`

const storedState = Effect.fnUntraced(function* (run: LeaseRun) {
  const rows = [
    ...(yield* sql(`select id, generation, process, cancel, ${silent} as silent from execution_leases`)),
    ...(yield* sql(
      `select id, generation, process, 'none' as cancel, ${silent} as silent from repository_claims`
    ))
  ]
  return rows
    .map((row) => lineOf({ ...row, name: run.names.get(String(row["id"])), isSilent: row["silent"] }))
    .toSorted()
})

/** Handles that are looked at after each command: the newest, so that a long run does not grow slower. */
const lookedAtMax = 100

/** What the living holders believe, by their own clocks. */
const believed = Effect.fnUntraced(function* (run: LeaseRun) {
  const living = run.held.slice(-lookedAtMax).filter(({ by }) => !run.dead.has(by.written))
  const told = yield* Effect.forEach(living, ({ by, handle }) => run.as(by)(handle.isValid))
  return living.map(({ name }, index) => [name, told[index]] as const)
})

/** The database's clock goes on while the run lasts: what is not silent is as fresh as if it did not. */
const standStill = Effect.forEach(["execution_leases", "repository_claims"], (table) =>
  sql(`update ${table} set heartbeat_at = now() where not ${silent}`)
)

layer(fixture, { excludeTestServices: true, timeout: "120 seconds" })("the model of leases", (it) => {
  it.effect(
    `SP-LEASE-02 SP-LEASE-03 SP-LEASE-04 SP-LEASE-05 SP-LEASE-07 FC-11 FC-12 generated commands agree with the oracle after each (seed ${seed})`,
    () =>
      Effect.gen(function* () {
        const run = new LeaseRun(seed)
        yield* run.begin
        let count = 0
        const missing = () => ends.filter((end) => !run.succeeded.has(end))
        while (count < commandsMin || (missing().length > 0 && count < commandsMax)) {
          count += 1
          yield* run.random.pick(commands)(run)
          const told = `seed ${seed}, command ${count}`
          assert.deepStrictEqual(yield* storedState(run), oracleState(run), told)
          const beliefs = yield* believed(run)
          assert.deepStrictEqual(
            beliefs,
            beliefs.map(([name]) => [name, run.oracle.isValid(name)] as const),
            told
          )
          yield* standStill
        }
        console.log(
          `model: seed ${seed}, ${count} commands: ${[...run.succeeded].map(([end, times]) => `${end} ${times}`).join(", ")}`
        )
        assert.deepStrictEqual(missing(), [], "commands that never succeeded")
      }),
    60_000 + commandsMin * millisOfCommandMax
  )
})
