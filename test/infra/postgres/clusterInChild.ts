/** A process that starts a persistent cluster below the given home, prints the server's process id and stays. */
import * as Effect from "effect/Effect"
import { start } from "../../../src/infra/postgres/EmbeddedCluster.ts"

const [, , home = ""] = process.argv

const program = Effect.gen(function* () {
  const cluster = yield* start({ kind: "persistent", home })
  process.stdout.write(`${cluster.processId}\n`)
  yield* Effect.never
})

await Effect.runPromise(Effect.scoped(program))
