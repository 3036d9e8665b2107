/**
 * The daemon's own entry point with one thing added: at the boundary that the environment names, the process kills
 * itself with SIGKILL. Started by daemonProcess.ts.
 */
import * as Effect from "effect/Effect"
import { StepObserver } from "../../src/domain/StepObserver.ts"
import { main } from "../../src/layers/cli.ts"
import { killingObserver } from "./killingObserver.ts"

const named = process.env["HOLDFAST_TEST_KILL_AT"]
const observer = killingObserver(named === undefined ? undefined : JSON.parse(named))

main((program) => Effect.provideService(program, StepObserver, observer))
