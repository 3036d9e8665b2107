/**
 * A process of its own that opens a state directory and tells each boundary of a step on a line of its own; at the one
 * whose number it is given it kills itself with SIGKILL. Started by openKilled.test.ts.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { writeSync } from "node:fs"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import * as RegistryFiles from "../../../src/infra/filesystem/RegistryFiles.ts"
import { layer as identifiers } from "../../../src/infra/Identifiers.ts"

const [directory, at] = process.argv.slice(2)
let seen = 0

const look = (boundary: string) => (_: string, step: string) =>
  Effect.suspend(() => {
    seen += 1
    writeSync(1, `${boundary} ${step}\n`)
    if (seen !== Number(at)) return Effect.void
    process.kill(process.pid, "SIGKILL")
    return Effect.never
  })

await openRegistry().pipe(
  Effect.provideService(StepObserver, { before: look("before"), after: look("after") }),
  Effect.provide(Layer.merge(RegistryFiles.layer(directory!), identifiers)),
  Effect.runPromise
)
