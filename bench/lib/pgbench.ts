/** PostgreSQL's own load generator, for a client that costs next to nothing. Left out where it is not installed. */
import * as Effect from "effect/Effect"
import { execFile, spawnSync } from "node:child_process"
import * as Files from "node:fs"
import { promisify } from "node:util"
import type { Figures, Load } from "./definition.ts"
import type { PlainSettings } from "./plainPg.ts"

export const hasPgbench = (): boolean => spawnSync("pgbench", ["--version"]).status === 0

const numberIn = (text: string, pattern: RegExp): number => Number(pattern.exec(text)?.[1])

const argumentsFor = (settings: PlainSettings, script: string, load: Load): ReadonlyArray<string> => [
  `--host=${settings.host}`,
  `--port=${settings.port}`,
  `--username=${settings.user}`,
  "--no-vacuum",
  "--protocol=prepared",
  `--client=${load.workers}`,
  "--jobs=1",
  `--time=${Math.max(1, Math.round(load.seconds))}`,
  `--file=${script}`,
  settings.database
]

/** Runs the script in as many connections as there are workers, with prepared statements. It has no percentiles. */
export const pgbench = (
  settings: PlainSettings,
  script: { readonly path: string; readonly text: string },
  load: Load
): Effect.Effect<Figures, unknown> =>
  Effect.tryPromise({
    try: async () => {
      Files.writeFileSync(script.path, script.text)
      const { stdout } = await promisify(execFile)("pgbench", argumentsFor(settings, script.path, load), {
        env: { ...process.env, PGOPTIONS: settings.options ?? "" }
      })
      return {
        perSecond: numberIn(stdout, /tps = ([\d.]+)/),
        operationsAll: numberIn(stdout, /actually processed: (\d+)/),
        p50Millis: Number.NaN
      }
    },
    catch: (failure) => failure
  })
