/**
 * The chapters of the demo, in order. Each does one thing through the daemon's API, shows it, and answers what the
 * next ones compare with.
 */
import { readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { bytes } from "../src/infra/cli/text.ts"
import { execute, firstStep, follow, request, type Stage } from "./conversation.ts"
import * as Daemon from "./Daemon.ts"
import { DemoFailed } from "./Daemon.ts"
import { directoriesOf, groupsOf, type Leftover, processesOf, rowsIn } from "./leftovers.ts"
import * as Screen from "./Screen.ts"

/** A guest as the kernel knows it: the identity that the daemon wrote down before its first instruction. */
export interface Guest {
  readonly sandbox: string
  readonly initPid: number
  readonly initStartTicks: string
}

const web = "web"
const worker = "worker"
const chartMillis = 100

const quiet = (): void => {}

export const bootUp = (stage: Stage) =>
  Effect.gen(function* () {
    Screen.chapter("A daemon starts, and with it a PostgreSQL 18 of its own: socket only, private")
    const daemon = yield* Daemon.start(stage.home, stage.settings)
    const startedAt = performance.now()
    const drawing = yield* Effect.forkChild(
      Effect.sync(() => Screen.bar(1 - Math.exp((startedAt - performance.now()) / 2_000), "starting")).pipe(
        Effect.repeat(Schedule.spaced(100))
      )
    )
    yield* Daemon.awaitReady(daemon, stage.client)
    yield* Fiber.interrupt(drawing)
    Screen.bar(1, `ready in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
    const { checks } = yield* stage.client.system.doctor()
    for (const check of checks) Screen.say(`${check.name.padEnd(10)} ${check.detail}`)
    return daemon
  })

const guestOf = (stage: Stage, project: string) =>
  Effect.gen(function* () {
    const { runtime } = yield* stage.client.projects.status({ params: { project } })
    if (runtime?.sandbox == null) return yield* new DemoFailed({ what: `${project} has no sandbox` })
    stage.sandboxes.add(runtime.sandbox)
    const file = join(stage.home, "state", "runtime", runtime.sandbox, "identity.json")
    const identity = JSON.parse(readFileSync(file, "utf8"))
    const guest: Guest = {
      sandbox: runtime.sandbox,
      initPid: identity.init.pid,
      initStartTicks: identity.init.startTicks
    }
    return guest
  })

const sayGuest = (guest: Guest): void =>
  Screen.say(`${guest.sandbox}: init is process ${guest.initPid}, started at tick ${guest.initStartTicks}`)

export const provision = (stage: Stage) =>
  Effect.gen(function* () {
    Screen.chapter(
      "A Project is created and its sandbox provisioned: a real guest in its own namespaces and cgroups"
    )
    yield* stage.client.projects.create({ payload: { name: web } })
    yield* follow(stage, yield* request(stage, web, "provision", "provision-web"))
    const guest = yield* guestOf(stage, web)
    sayGuest(guest)
    return guest
  })

/** Work that every POSIX system can do: it builds a word list, sorts, compresses and checks it. */
const buildScript = `
echo "building 600000 records"
awk 'BEGIN { srand(7); for (i = 0; i < 600000; i++) { v = int(rand() * 1000000); seen[i % 200000] = v; print v } }' > records
echo "sorting them"
sort -n records > sorted
echo "testing: the order holds"
awk 'NR > 1 && $1 < last { bad = 1; exit } { last = $1 } END { exit bad }' sorted && echo "ok 1 - sorted"
echo "testing: nothing is lost"
[ "$(wc -l < records)" -eq "$(wc -l < sorted)" ] && echo "ok 2 - complete"
gzip -kf sorted && gzip -t sorted.gz && echo "ok 3 - archive is sound"
`

export const buildAndTest = (stage: Stage) =>
  Effect.gen(function* () {
    Screen.chapter(
      "A small build and test run in the sandbox; its output is streamed, its CPU and memory sampled"
    )
    const cpu: Array<number> = []
    const memory: Array<number> = []
    const seen = new Set<number>()
    const watching = yield* Effect.forkChild(
      Effect.gen(function* () {
        const { sample } = yield* stage.client.projects.status({ params: { project: web } })
        if (sample === null || seen.has(sample.startedAtMillis)) return
        seen.add(sample.startedAtMillis)
        const usec = sample.metrics["cpu_usec"]?.value
        const resident = sample.metrics["memory_bytes"]?.value
        if (usec != null) cpu.push(usec)
        if (resident != null) memory.push(resident)
      }).pipe(Effect.ignore, Effect.repeat(Schedule.spaced(chartMillis)))
    )
    const ran = yield* execute(stage, web, buildScript, Screen.output)
    yield* Effect.sleep(2 * chartMillis)
    yield* Fiber.interrupt(watching)
    if (ran.exitCode !== 0) return yield* new DemoFailed({ what: `the build exited with ${ran.exitCode}` })
    const used = cpu.slice(1).map((value, index) => value - (cpu[index] ?? value))
    Screen.chart("cpu", used, (value) => `${(value / 1000).toFixed(0)} ms a sample`)
    Screen.chart("memory", memory, bytes)
  })

const readCounter = (stage: Stage) =>
  Effect.map(execute(stage, web, "cat counter", quiet), ({ text }) => Number(text.trim()))

export const startCounter = (stage: Stage) =>
  Effect.gen(function* () {
    Screen.chapter("A counter begins to count in the sandbox, ten times a second")
    const script = `setsid sh -c 'i=0; while :; do i=$((i + 1)); echo $i > .counter; mv .counter counter; sleep 0.1; done' >/dev/null 2>&1 </dev/null &`
    yield* execute(stage, web, script, quiet)
    const counter = yield* readCounter(stage).pipe(
      Effect.repeat({ until: (value) => value > 0, schedule: Schedule.spaced(50), times: 100 })
    )
    Screen.say(`The counter is at ${counter}.`)
    return counter
  })

export const killInTheMiddle = (stage: Stage, daemon: Daemon.Daemon) =>
  Effect.gen(function* () {
    Screen.chapter("The daemon is killed with SIGKILL in the middle of provisioning a second Project")
    yield* stage.client.projects.create({ payload: { name: worker } })
    const operation = yield* request(stage, worker, "provision", "provision-worker")
    const step = yield* firstStep(stage, operation)
    yield* Daemon.end(daemon, "SIGKILL")
    Screen.say(`Operation ${operation.id} had come to its step ${step}.`)
    Screen.say(`Process ${daemon.pid} is gone, and its PostgreSQL with it.`)
    Screen.chapter("Another daemon starts on the same state")
    const startedAt = performance.now()
    const next = yield* Daemon.start(stage.home, stage.settings)
    yield* Daemon.awaitReady(next, stage.client)
    Screen.say(`Ready after ${((performance.now() - startedAt) / 1000).toFixed(1)} s as process ${next.pid}.`)
    yield* follow(stage, yield* stage.client.operations.get({ params: { id: operation.id } }))
    Screen.say("The operation that the first daemon had begun is finished by the second.")
    sayGuest(yield* guestOf(stage, worker))
    return next
  })

export const showReadopted = (stage: Stage, before: Guest, counterBefore: number) =>
  Effect.gen(function* () {
    Screen.chapter("The first sandbox never noticed")
    const after = yield* guestOf(stage, web)
    sayGuest(after)
    const same =
      after.sandbox === before.sandbox &&
      after.initPid === before.initPid &&
      after.initStartTicks === before.initStartTicks
    const counter = yield* readCounter(stage)
    Screen.say(`The counter went from ${counterBefore} to ${counter}.`)
    if (!same) return yield* new DemoFailed({ what: "the sandbox is another one" })
    if (counter <= counterBefore) return yield* new DemoFailed({ what: "the counter did not go on" })
    Screen.say("Same identity, and it went on counting while no daemon ran.")
  })

const deleteProject = (stage: Stage, project: string) =>
  Effect.gen(function* () {
    const preview = yield* stage.client.projects.previewDeletion({ params: { project } })
    Screen.say(`Deleting ${project} will remove, and nothing else:`)
    for (const path of preview.paths) Screen.say(`  ${path}`)
    const deletion = yield* stage.client.projects.delete({
      params: { project },
      payload: { confirmedPaths: preview.paths }
    })
    if (deletion.state !== "completed") {
      return yield* new DemoFailed({
        what: `deleting ${project} is ${deletion.state}: ${deletion.failureCode ?? ""}`
      })
    }
    for (const path of deletion.confirmedPaths) Screen.say(`confirmed  ${path}`)
    for (const proof of deletion.proofs) Screen.say(`proved     ${proof}`)
  })

export const deleteEverything = (stage: Stage) =>
  Effect.gen(function* () {
    Screen.chapter("Both Projects are deleted: every path is confirmed first, every absence proved")
    yield* deleteProject(stage, web)
    yield* deleteProject(stage, worker)
  })

export const countLeftovers = (stage: Stage, daemon: Daemon.Daemon) =>
  Effect.gen(function* () {
    Screen.chapter("What is left")
    const rows = yield* rowsIn(join(stage.home, "postgres"), "postgres")
    const code = yield* Daemon.end(daemon, "SIGTERM")
    if (code !== 0) return yield* new DemoFailed({ what: `the daemon ended with ${code} on SIGTERM` })
    const left: ReadonlyArray<Leftover> = [
      ...rows,
      ...processesOf(stage.home),
      ...groupsOf([...stage.sandboxes]),
      ...directoriesOf(join(stage.home, "state"))
    ]
    for (const kind of ["process", "cgroup", "directory", "row"] as const) {
      const found = left.filter((each) => each.kind === kind)
      Screen.say(`${kind.padEnd(10)} ${found.length}`)
      for (const each of found) Screen.say(`  ${each.what}`)
    }
    Screen.say(left.length === 0 ? "Nothing. The daemon ended with exit code 0." : "This should not be.")
    return left.length
  })

export const showHowToLook = (stage: Stage, daemon: Daemon.Daemon): void => {
  Screen.chapter("It keeps running for a look")
  const command = `npm exec -- node src/layers/cli.ts --home ${stage.home}`
  Screen.say(`${command} status ${web}`)
  Screen.say(`${command} exec ${web} -- cat counter`)
  Screen.say(`kill ${daemon.pid} ends the daemon; its guests go on until their Projects are deleted.`)
  Screen.say(`State: ${stage.home} (${statSync(stage.home).isDirectory() ? "kept" : "gone"})`)
}
