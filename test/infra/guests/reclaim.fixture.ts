/**
 * A daemon process for tests that kill one in the middle of a deletion: it deletes the sandbox, and kills itself with
 * SIGKILL behind the step that it is told, or instead of the given occurrence of a call of the file system behind its tombstone.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { createRequire, syncBuiltinESMExports } from "node:module"
import { SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { SandboxId } from "../../../src/domain/Identity.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { openDaemon } from "./recoveryNode.ts"

const [stateDirectory = "", kind = "", sandbox = "", when = "", name = "", occurrence = ""] =
  process.argv.slice(2)
const asked = Schema.decodeUnknownSync(SandboxId)(sandbox)
const carrier = Schema.decodeUnknownSync(SupervisorKind)(kind)

const killed = Effect.suspend(() => {
  process.kill(process.pid, "SIGKILL")
  return Effect.never
})

let isFenced = false

const look = (moment: string) => (_: string, step: string) =>
  Effect.suspend(() => {
    if (moment === "after" && step === "tombstone") isFenced = true
    return moment === when && step === name ? killed : Effect.void
  })

// The object behind the module, whose changes every importer is told of.
const files: Record<string, (...given: ReadonlyArray<unknown>) => unknown> = createRequire(import.meta.url)(
  "node:fs"
)

const armCall = (): void => {
  const original = files[name]
  if (when !== "call" || original === undefined) return
  let seen = 0
  files[name] = (...given) => {
    // Only what belongs to a sandbox, or is reached through a descriptor of its directory.
    if (isFenced && /sb-|self\/fd/.test(String(given[0])) && (seen += 1) === Number(occurrence)) {
      process.kill(process.pid, "SIGKILL")
    }
    return Reflect.apply(original, undefined, given)
  }
  syncBuiltinESMExports()
}

await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const context = yield* openDaemon(stateDirectory, carrier)
      armCall()
      yield* deleteSandbox(asked, { reason: "user", actor: "tester" }).pipe(
        Effect.provideService(StepObserver, { before: look("before"), after: look("after") }),
        Effect.provideContext(context)
      )
    })
  )
)
