/**
 * What a daemon without privileges does with a guest, told as one line of JSON: no cgroups, its own user, the absence
 * proved by processes. Run by a test as an unprivileged user.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import { SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { reclaimSandbox } from "../../../src/domain/reclamation/reclamation.ts"
import { findWitnesses } from "../../../src/infra/guests/witnesses.ts"
import { daemonLayer, makeSpec, run, shell } from "../../suites/guestHarness.ts"

const [stateDirectory = "", asked = ""] = process.argv.slice(2)
const kind = Schema.decodeUnknownSync(SupervisorKind)(asked)
const inDaemon = <A, E>(effect: Effect.Effect<A, E, GuestSupervisor>) =>
  Effect.provide(effect, daemonLayer(stateDirectory, kind), { local: true })

const spec = makeSpec({ environment: { NAME: "it's" }, argv: ["sleep", "1000"] })
const folder = Path.join(stateDirectory, "runtime", spec.sandbox)

const life = Effect.gen(function* () {
  const supervisor = yield* GuestSupervisor
  const identity = yield* supervisor.start(spec)
  const said = yield* shell(spec.sandbox, 'echo "$NAME"; mkdir -p a/b; echo x >a/b/c; chmod 0 a/b a')
  const slow = yield* shell(spec.sandbox, "setsid sleep 1000 & sleep 1000", { timeoutMillis: 300 })
  const { stdout: left } = yield* shell(spec.sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
  const sample = yield* supervisor.sample(spec.sandbox)
  const pause = yield* Effect.flip(supervisor.pause(spec.sandbox))
  const port = yield* Effect.flip(supervisor.openPort(spec.sandbox, { port: 80, token: "0".repeat(64) }))
  return {
    capabilities: supervisor.capabilities,
    identity,
    said,
    slow,
    left,
    sample,
    pause: pause._tag,
    port: port._tag
  }
})

/** A later daemon finds the launch as a crash between spawn and record leaves it. */
const afterCrash = Effect.gen(function* () {
  const supervisor = yield* GuestSupervisor
  const running = yield* supervisor.inspect(spec.sandbox)
  const adopted = yield* run(spec.sandbox, ["true"])
  const identity: unknown = JSON.parse(Files.readFileSync(Path.join(folder, "identity.json"), "utf8"))
  const { sandbox, generation, runId, attemptId, bootId, groups, userId } = Object(identity)
  Files.writeFileSync(
    Path.join(folder, "preparing.json"),
    JSON.stringify({ sandbox, generation, runId, attemptId, bootId, groups, userId })
  )
  Files.rmSync(Path.join(folder, "identity.json"))
  const inFlight = yield* supervisor.inspect(spec.sandbox)
  const again = yield* Effect.flip(supervisor.start(makeSpec({ ...spec, attemptId: randomUUID() })))
  const witnesses = findWitnesses(spec.sandbox).length
  const proof = yield* reclaimSandbox(spec.sandbox, { graceMillis: 0 })
  return {
    running: running._tag,
    adopted: adopted.exitCode,
    inFlight: inFlight._tag,
    again: again.code,
    witnesses,
    evidence: proof.evidence._tag,
    entries: Files.readdirSync(folder).toSorted(),
    left: findWitnesses(spec.sandbox).length
  }
})

const told = await Effect.runPromise(
  Effect.all({
    life: inDaemon(life),
    afterCrash: Effect.provide(afterCrash, daemonLayer(stateDirectory, kind), { local: true })
  })
)
process.stdout.write(`${JSON.stringify(told)}\n`)
