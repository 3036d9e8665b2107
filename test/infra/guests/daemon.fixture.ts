/**
 * A daemon process for tests that kill one: starts the guest that it is told on its command line, begins a command in
 * it, tells both by lines, and stays until it is killed.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Schema from "effect/Schema"
import { GuestSpec, SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { daemonLayer, makeCommand } from "../../suites/guestHarness.ts"

const [stateDirectory = "", kind = "", spec = ""] = process.argv.slice(2)
const decodeSpec = Schema.decodeUnknownSync(Schema.fromJsonString(GuestSpec))
const decodeKind = Schema.decodeUnknownSync(SupervisorKind)

const say = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))

const program = Effect.gen(function* () {
  const supervisor = yield* GuestSupervisor
  const asked = decodeSpec(spec)
  yield* say("ready")
  const identity = yield* supervisor.start(asked)
  yield* say(JSON.stringify(identity))
  const command = makeCommand(["sh", "-c", "ls -l /proc/self/fd; echo begun; exec sleep 1000"], {
    timeoutMillis: 600_000
  })
  yield* Stream.runForEach(supervisor.execute(asked.sandbox, command), (event) =>
    event._tag === "Output" ? say(new TextDecoder().decode(event.bytes)) : Effect.void
  )
  yield* Effect.never
}).pipe(Effect.provide(daemonLayer(stateDirectory, decodeKind(kind))))

await Effect.runPromise(program)
