/** The shell that starts programs: what it carries, what it answers, and what becomes of orders when it dies. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { execFileSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { allProcesses, isAlive, observeProcess, readProcess } from "../../../src/infra/guests/kernel.ts"
import { type LaunchShell, makeLaunchShell } from "../../../src/infra/guests/launchShell.ts"
import { eventually, makeStateDirectory } from "../../suites/guestHarness.ts"

const directory = Effect.acquireRelease(
  Effect.sync(() => makeStateDirectory()),
  (path) => Effect.sync(() => Files.rmSync(path, { recursive: true, force: true }))
)

const childrenOfThis = (): ReadonlyArray<number> =>
  allProcesses().filter((pid) => readProcess(pid)?.parent === process.pid)

/** A shell, and the pid that it has once it has done an order. */
const openShell = (orderMillisMax?: number) =>
  Effect.gen(function* () {
    const before = childrenOfThis()
    const launchShell = yield* makeLaunchShell(orderMillisMax)
    assert.strictEqual(yield* launchShell.run(["true"]), 0)
    const [pid] = childrenOfThis().filter((child) => !before.includes(child))
    return { launchShell, pid: pid ?? 0 }
  })

/** Starts a program that waits for its held pipe. The caller closes the descriptor. */
const startHeld = (launchShell: LaunchShell, place: string, script: string) =>
  Effect.gen(function* () {
    const at = (name: string) => Path.join(place, name)
    execFileSync("mkfifo", [at("hold")])
    for (const name of ["log", "status", "words"]) Files.writeFileSync(at(name), "", { mode: 0o600 })
    Files.writeFileSync(at("words"), "read by it")
    const holder = Files.openSync(at("hold"), Files.constants.O_RDWR | Files.constants.O_NONBLOCK)
    const pid = yield* launchShell.start({
      first: "",
      argv: ["/bin/sh", "-c", script],
      mark: ["HOLDFAST_TEST", "it's marked"],
      output: at("log"),
      written: [[3, at("status")]],
      read: [[4, at("words")]],
      pipe: [5, at("hold")]
    })
    return { holder, monitor: observeProcess(pid ?? 0), at }
  })

describe("the shell that starts programs", () => {
  it.live("runs a program with its exact words and answers its status", () =>
    Effect.gen(function* () {
      const place = yield* directory
      const { launchShell } = yield* openShell()
      const file = Path.join(place, 'it\'s $HOME; `true` "quoted"\nin two lines')
      assert.strictEqual(yield* launchShell.run(["touch", file]), 0)
      assert.deepStrictEqual(Files.readdirSync(place), [Path.basename(file)])
      assert.strictEqual(yield* launchShell.run(["/bin/sh", "-c", "exit 42"]), 42)
      assert.strictEqual(yield* launchShell.run(["/nonexistent/program"]), 127)
    })
  )

  it.live("answers many orders at once, each with its own status", () =>
    Effect.gen(function* () {
      const { launchShell } = yield* openShell()
      const statuses = Array.from({ length: 20 }, (_, at) => at)
      const answers = yield* Effect.forEach(
        statuses,
        (status) => launchShell.run(["/bin/sh", "-c", `exit ${status}`]),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(answers, statuses)
    })
  )

  it.live("starts a program in a session of its own, with its mark and no descriptor but its own", () =>
    Effect.gen(function* () {
      const place = yield* directory
      const { launchShell } = yield* openShell()
      const { at, holder, monitor } = yield* startHeld(
        launchShell,
        place,
        'read -r word <&5; read -r pid name state parent group session rest </proc/$$/stat; echo "$session" >&3; echo "$HOLDFAST_TEST" >&3; cat <&4 >&3; ls -l /proc/$$/fd; exit 7'
      )
      if (monitor === undefined) throw new Error("nothing was started")
      Files.closeSync(holder)
      yield* eventually(
        "it ends",
        Effect.sync(() => !isAlive(monitor))
      )
      assert.strictEqual(Files.readFileSync(at("status"), "utf8"), `${monitor.pid}\nit's marked\nread by it`)
      const open = [...Files.readFileSync(at("log"), "utf8").matchAll(/ (\d+) -> (.*)$/gm)]
      // Behind what a stranger has given this process is nothing.
      assert.deepStrictEqual(
        open.filter(([, , path]) => path !== "/dev/null").map(([, number]) => number),
        ["1", "2", "3", "4", "5"]
      )
    })
  )

  it.live("holds a started program as long as the pipe has a writer, and no longer", () =>
    Effect.gen(function* () {
      const place = yield* directory
      const { launchShell } = yield* openShell()
      const held = yield* startHeld(launchShell, place, "cat <&5")
      if (held.monitor === undefined) throw new Error("nothing was started")
      const { monitor } = held
      assert.strictEqual(yield* launchShell.run(["true"]), 0)
      assert.strictEqual(isAlive(monitor), true)
      Files.closeSync(held.holder)
      yield* eventually(
        "it ends with its pipe",
        Effect.sync(() => !isAlive(monitor))
      )
      // Whoever has ended is collected with the next orders.
      yield* eventually(
        "it is collected",
        Effect.map(
          launchShell.run(["true"]),
          () => readProcess(monitor.pid)?.startTicks !== monitor.startTicks
        )
      )
    })
  )

  it.live(
    "a shell that dies leaves its order unanswered, its programs alive, and another takes the next",
    () =>
      Effect.gen(function* () {
        const place = yield* directory
        const { launchShell, pid } = yield* openShell()
        const { holder, monitor } = yield* startHeld(launchShell, place, "cat <&5")
        process.kill(pid, "SIGSTOP")
        const asked = yield* Effect.forkChild(launchShell.run(["true"]), { startImmediately: true })
        process.kill(pid, "SIGKILL")
        assert.isUndefined(yield* Fiber.join(asked))
        assert.strictEqual(monitor !== undefined && isAlive(monitor), true)
        assert.strictEqual(yield* launchShell.run(["/bin/sh", "-c", "exit 3"]), 3)
        Files.closeSync(holder)
      })
  )

  it.live("a shell that does not answer is ended, and the order is unanswered", () =>
    Effect.gen(function* () {
      const { launchShell, pid } = yield* openShell(2_000)
      process.kill(pid, "SIGSTOP")
      assert.isUndefined(yield* launchShell.run(["true"]))
      assert.strictEqual(yield* launchShell.run(["true"]), 0)
    })
  )

  it.live("ends with its scope", () =>
    Effect.gen(function* () {
      const { pid } = yield* Effect.scoped(openShell())
      const shellProcess = observeProcess(pid)
      yield* eventually(
        "it is gone",
        Effect.sync(() => shellProcess === undefined || !isAlive(shellProcess))
      )
    })
  )
})
