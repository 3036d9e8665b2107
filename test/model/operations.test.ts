/**
 * The product against the oracle: generated commands of several daemons on two nodes go to both, and what is stored is
 * compared after each of them. The run is not over until every command has succeeded at least once.
 *
 *     HOLDFAST_MODEL_COMMANDS   how many (1,000 in the suite)      HOLDFAST_MODEL_SEED   which ones
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { fixture, rows } from "../infra/postgres/operationsFixture.ts"
import type { Oracle } from "./oracle.ts"
import { commands, ends } from "./commands.ts"
import { Run } from "./run.ts"

const commandsMin = Number(process.env["HOLDFAST_MODEL_COMMANDS"] ?? 1_000)
const seed = Number(process.env["HOLDFAST_MODEL_SEED"] ?? 20_261_130)
/** Far more than any seed needs until every command has succeeded once. */
const commandsMax = commandsMin * 5
/** Many times what a command takes on an idle machine. */
const millisOfCommandMax = 60

/** The state of the oracle in the form in which the tables are read. */
const stateOfOracle = (oracle: Oracle) => ({
  runtimes: [...oracle.projects.values()].flatMap(({ name, runtime }) =>
    runtime === null
      ? []
      : [
          `${name}: generation ${runtime.generation}, ${runtime.observed}, machine at ${runtime.machine?.node ?? "none"}`
        ]
  ),
  operations: oracle.operations.map(
    (each) =>
      `${each.name} of ${each.project}: ${each.action} ${each.key} ${each.initiator}, generation ${each.generation}, ${each.state} by ${each.claimedBy ?? "nobody"}, claim ${each.claims}, owes ${each.owed.length}`
  ),
  live: oracle.operations
    .filter(({ state }) => state === "queued" || state === "claimed")
    .map(({ name, node }) => `${name} at ${node ?? "any"}`)
    .toSorted()
})

const storedState = Effect.fnUntraced(function* (run: Run) {
  const projects = new Map([...run.scenes].map(([name, { project }]) => [String(project), name]))
  const named = (id: unknown) => run.names.get(String(id)) ?? `unknown ${String(id)}`
  const runtimes = yield* rows("select * from runtimes order by project_id")
  const operations = yield* rows("select * from runtime_operations order by row_id")
  const live = yield* rows(
    "select o.id, l.node_id from live_operations l join runtime_operations o on o.row_id = l.row_id"
  )
  return {
    runtimes: runtimes.map(
      (row) =>
        `${projects.get(String(row["project_id"]))}: generation ${String(row["generation"])}, ${String(row["observed"])}, machine at ${row["recipe"] === null ? "none" : String(row["node_id"])}`
    ),
    operations: operations.map(
      (row) =>
        `${named(row["id"])} of ${projects.get(String(row["project_id"]))}: ${String(row["action"])} ${String(row["request_key"])} ${String(row["initiator"])}, generation ${String(row["generation"])}, ${String(row["state"])} by ${String(row["claimed_by"] ?? "nobody")}, claim ${String(row["claim_sequence"])}, owes ${(row["owed"] as Array<string>).length}`
    ),
    live: live.map((row) => `${named(row["id"])} at ${String(row["node_id"] ?? "any")}`).toSorted()
  }
})

layer(fixture, { excludeTestServices: true, timeout: "120 seconds" })("the model of operations", (it) => {
  it.effect(
    `SP-ADM-07 SP-ADM-08 SP-ADM-09 SP-OPS-02 SP-OPS-04 SP-OPS-06 generated commands agree with the oracle after each (seed ${seed})`,
    () =>
      Effect.gen(function* () {
        const run = new Run(seed)
        yield* run.begin
        let count = 0
        const missing = () => ends.filter((end) => !run.succeeded.has(end))
        while (count < commandsMin || (missing().length > 0 && count < commandsMax)) {
          count += 1
          const command = run.random.pick(commands)
          yield* command(run)
          const told = `seed ${seed}, command ${count}`
          assert.deepStrictEqual(yield* storedState(run), stateOfOracle(run.oracle), told)
        }
        console.log(
          `model: seed ${seed}, ${count} commands: ${[...run.succeeded].map(([end, times]) => `${end} ${times}`).join(", ")}`
        )
        assert.deepStrictEqual(missing(), [], "commands that never succeeded")
      }),
    60_000 + commandsMin * millisOfCommandMax
  )
})
