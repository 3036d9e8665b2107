/**
 * Looks at this machine for `holdfast doctor`: Node, supervisors and cgroups by the daemon's own probe, which runs a
 * small program in each kind of sandbox, and the database binaries by starting them. What the findings mean is told
 * by checks.ts. It leaves nothing behind.
 */
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import { probeMachine } from "../guests/probe.ts"
import { runProgram } from "../guests/programs.ts"
import type { CheckView } from "../http/Views.ts"
import { locate, majorVersion } from "../postgres/postgresBinaries.ts"
import {
  databaseCheck,
  desktopCheck,
  groupsCheck,
  nodeCheck,
  supervisorChecks,
  type SupervisorFact
} from "./checks.ts"

/** A state directory for the probe alone, so that a daemon's own is never touched. Open to the guests' users. */
const probeDirectory = Effect.acquireRelease(
  Effect.sync(() => {
    const directory = Files.mkdtempSync(Path.join(Os.tmpdir(), "holdfast-doctor-"))
    Files.chmodSync(directory, 0o711)
    for (const name of ["runtime", "disks"]) Files.mkdirSync(Path.join(directory, name), { mode: 0o711 })
    return directory
  }),
  (directory) => Effect.sync(() => Files.rmSync(directory, { recursive: true, force: true }))
)

const kinds = ["bubblewrap", "unshare"] as const

const probed = Effect.scoped(
  Effect.gen(function* () {
    const { results, surroundings } = yield* probeMachine(yield* probeDirectory, kinds)
    const facts = kinds.map((kind, index): SupervisorFact => {
      const result = results[index]
      if (result?._tag !== "Works") {
        return { kind, usable: false, detail: result?.why ?? "it was not tried" }
      }
      const { limits, seccomp } = result.capabilities
      const walls = seccomp ? "namespaces and a system call filter" : "namespaces"
      return { kind, usable: true, detail: `a program ran behind ${walls}, limits by ${limits}` }
    })
    return { facts, groups: surroundings.layout.mode }
  })
)

const hasProgram = (name: string) =>
  Effect.map(
    runProgram({ argv: ["/bin/sh", "-c", 'command -v "$1"', "holdfast-doctor", name] }),
    ({ status }) => status === 0
  )

const desktopFact = Effect.all({ hasDisplay: hasProgram("Xvnc"), hasTerminal: hasProgram("xterm") })

const databaseFact = (databaseUrl: string | undefined) =>
  Effect.match(locate, {
    onFailure: ({ message }) => ({ major: undefined, trouble: message }),
    onSuccess: ({ postgres }) => ({ major: majorVersion(postgres), trouble: undefined })
  }).pipe(Effect.map((fact) => ({ ...fact, externalUrl: databaseUrl !== undefined && databaseUrl !== "" })))

/** Every check of this machine. Runs for at most some seconds; starts nothing that stays. */
export const checksOfMachine = Effect.fn("cli.checksOfMachine")(function* (options: {
  readonly databaseUrl: string | undefined
}) {
  const { facts, groups } = yield* probed
  const database = yield* databaseFact(options.databaseUrl)
  const checks: ReadonlyArray<CheckView> = [
    nodeCheck(process.versions.node),
    ...supervisorChecks(facts),
    groupsCheck(groups),
    desktopCheck(yield* desktopFact),
    databaseCheck(database)
  ]
  return checks
})
