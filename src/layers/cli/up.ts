/**
 * The verbs `up` and `node up`: resolve the settings and run the daemon in this process until a signal ends it. What a
 * daemon is made of is told by layers/daemon.ts and layers/node.ts, which are loaded here and nowhere else in the CLI.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { type DaemonFlags, type DaemonSettings, resolveSettings, SettingRefused } from "../config.ts"
import { type CliFailure, failed, usage } from "./Failure.ts"
import { exitCodes } from "./exitCodes.ts"
import { Output } from "./Output.ts"
import type { Place } from "./place.ts"

/** A daemon that cannot start says why by its own code and sentence. */
const ofDaemonError = (error: unknown): CliFailure => {
  const told = typeof error === "object" && error !== null ? error : {}
  return "code" in told && "message" in told
    ? failed(String(told.code), String(told.message))
    : failed("daemon_failed", "the daemon could not start: its log tells why")
}

/** A daemon that was told to stop, and has stopped, has done what it was told: the process ends with 0. */
const toldToStop = (): void => {
  process.exitCode = exitCodes.done
}

/** A setting that cannot be used is a wrong command line. */
const settingsOf = (place: Place, flags: DaemonFlags): Effect.Effect<DaemonSettings, CliFailure> =>
  Effect.try({
    try: () => ({
      ...resolveSettings({ ...flags, home: place.home }, process.env, process.getuid?.() ?? -1),
      socketPath: place.socketPath
    }),
    catch: (error) =>
      error instanceof SettingRefused ? usage(error.message) : usage("the settings cannot be read")
  })

/** Runs a daemon until it is told to stop. With `--json` its log is JSON, a line each. */
const inForeground = Effect.fnUntraced(function* <A, E>(daemon: Effect.Effect<A, E>) {
  const { json } = yield* Output
  return yield* daemon.pipe(
    Effect.mapError(ofDaemonError),
    Effect.onInterrupt(() => Effect.sync(toldToStop)),
    Effect.provide(json ? Logger.layer([Logger.consoleJson]) : Layer.empty)
  )
})

/** Runs the whole daemon. */
export const runUp = Effect.fn("cli.up")(function* (
  place: Place,
  flags: { readonly databaseUrl: string | undefined; readonly supervisor: string | undefined }
) {
  const settings = yield* settingsOf(place, flags)
  const { runDaemon } = yield* Effect.promise(() => import("../daemon.ts"))
  return yield* inForeground(runDaemon(settings))
})

/** Runs the daemon of a node that has no database. */
export const runNodeUp = Effect.fn("cli.nodeUp")(function* (
  place: Place,
  flags: { readonly supervisor: string | undefined }
) {
  const settings = yield* settingsOf(place, flags)
  const { runNode } = yield* Effect.promise(() => import("../node.ts"))
  return yield* inForeground(runNode(settings))
})
