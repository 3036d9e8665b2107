/** guests: how long a user waits for a sandbox, and for a command in it. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Files from "node:fs"
import * as Path from "node:path"
import { GuestSupervisor } from "../../src/domain/guests/GuestSupervisor.ts"
import { layer } from "../../src/infra/guests/processSupervisor.ts"
import type { Suite } from "../lib/definition.ts"
import { diskDirectory } from "../lib/disk.ts"
import { bareGuests, cyclesOfRun, supervisedGuests } from "../lib/guestCycles.ts"

export const guests: Suite = {
  id: "guests",
  title: "start and exec of a guest",
  what: `${cyclesOfRun} cycles a round: start until ready, run true, end. The bare command has no cgroups, no records, no filter and no user of its own.`,
  figure: { name: "startP50Millis", better: "lower" },
  beside: ["startMaxMillis", "execP50Millis", "execMaxMillis"],
  baseline: "bare bubblewrap",
  workers: [1],
  targets: [
    { contender: "supervisor", figure: "startP50Millis", atMost: 15 },
    { contender: "supervisor", figure: "execP50Millis", atMost: 10 }
  ],
  open: () =>
    Effect.gen(function* () {
      const directory = yield* diskDirectory
      const stateDirectory = Path.join(directory, "state")
      Files.mkdirSync(stateDirectory, { mode: 0o700 })
      const context = yield* Layer.build(layer({ stateDirectory, kind: "bubblewrap" }))
      const supervisor = Context.get(context, GuestSupervisor)
      const { isolation, limits, privateUser, seccomp } = supervisor.capabilities
      return {
        contenders: [bareGuests(directory), supervisedGuests(supervisor)],
        leftOut: [],
        setting: { supervisor: JSON.stringify({ isolation, limits, privateUser, seccomp }) }
      }
    })
}
