/**
 * The verb `doctor`: looks at this machine with its own eyes, and at the daemon's view when one answers. Every
 * finding comes from a real run or a real file, and each says what to install.
 */
import * as Files from "node:fs"
import * as Effect from "effect/Effect"
import { daemonAnswerMillisMax } from "../../domain/Bounds.ts"
import { checksOfMachine } from "../../infra/cli/machine.ts"
import { daemonCheck, isUsable } from "../../infra/cli/checks.ts"
import { table } from "../../infra/cli/text.ts"
import type { CheckView } from "../../infra/http/Views.ts"
import { connected } from "./connection.ts"
import { type ExitCode, exitCodes } from "./exitCodes.ts"
import { Output } from "./Output.ts"
import type { Place } from "./place.ts"

interface DaemonView {
  readonly reachable: CheckView
  readonly checks: ReadonlyArray<CheckView>
}

const daemonView = (place: Place): Effect.Effect<DaemonView> =>
  connected(place, ({ call, client }) =>
    Effect.all([call(client.system.health()), call(client.system.doctor())])
  ).pipe(
    Effect.timeoutOrElse({
      duration: daemonAnswerMillisMax,
      orElse: () => Effect.fail("slow")
    }),
    Effect.match({
      onFailure: () => ({
        reachable: daemonCheck(place.socketPath, { trouble: `no daemon answers at ${place.socketPath}` }),
        checks: []
      }),
      onSuccess: ([health, doctor]) => ({
        reachable: daemonCheck(place.socketPath, health),
        checks: [...health.checks, ...doctor.checks]
      })
    })
  )

const homeCheck = (place: Place): CheckView => {
  const found = Files.statSync(place.home, { throwIfNoEntry: false })
  if (found === undefined) {
    return {
      name: "home",
      state: "ok",
      detail: `${place.home} will be made by \`holdfast up\``,
      advice: null
    }
  }
  return found.isDirectory()
    ? { name: "home", state: "ok", detail: place.home, advice: null }
    : {
        name: "home",
        state: "failed",
        detail: `${place.home} is no directory`,
        advice: "give another --home"
      }
}

const marks = { ok: "ok", warning: "warn", failed: "FAIL" } as const

/** The checks as lines, each advice below what it is about. Pure. */
export const doctorLines = (checks: ReadonlyArray<CheckView>): ReadonlyArray<string> => {
  const rows = table(checks.map(({ detail, name, state }) => [marks[state], name, detail]))
  return rows.flatMap((row, index) => {
    const advice = checks[index]?.advice ?? null
    return advice === null ? [row] : [row, `      -> ${advice}`]
  })
}

/**
 * Looks, prints, and answers 0 when guests can be carried here and nothing of the daemon's has failed, else 1. A daemon
 * that is away is no fault. Source: FC-05.
 */
export const runDoctor = Effect.fn("cli.doctor")(function* (place: Place) {
  const output = yield* Output
  const machine = yield* checksOfMachine({ databaseUrl: process.env["HOLDFAST_DATABASE_URL"] })
  const daemon = yield* daemonView(place)
  const checks = [...machine, homeCheck(place), daemon.reachable]
  const usable = isUsable(checks)
  const sound = isUsable(daemon.checks)
  const daemonLines =
    daemon.checks.length === 0 ? [] : ["", "the daemon says:", ...doctorLines(daemon.checks)]
  yield* output.result({ usable, checks, daemon: daemon.checks }, [
    ...doctorLines(checks),
    ...daemonLines,
    "",
    usable ? "This machine can carry sandboxes." : "This machine cannot carry sandboxes yet.",
    ...(sound ? [] : ["The daemon is degraded: see what failed above."])
  ])
  const exit: ExitCode = usable && sound ? exitCodes.done : exitCodes.failed
  return exit
})
