/** Ends what a test that failed, or that kills its daemon, leaves of guests: nothing of it may burn the machine. */
import * as Effect from "effect/Effect"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { killGroups, removeGroup } from "../../src/infra/guests/cgroupControl.ts"

/** Ends guests that a test which failed has left: what is recorded of their cgroups is killed and removed. */
export const endGuestsOf = (stateDirectory: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    const runtime = join(stateDirectory, "runtime")
    if (!existsSync(runtime)) return Effect.void
    const files = readdirSync(runtime).map((sandbox) => join(runtime, sandbox, "identity.json"))
    const identities = files
      .filter((file) => existsSync(file))
      .map((file) => JSON.parse(readFileSync(file, "utf8")))
    for (const { groups, init } of identities) {
      killGroups(groups)
      try {
        process.kill(init.pid, "SIGKILL")
      } catch {
        // It is gone already.
      }
    }
    // A group is busy until the last of its processes has been collected.
    const paths = identities.flatMap(({ groups }) =>
      groups.map(({ path }: { readonly path: string }) => path)
    )
    return Effect.forEach(paths, removeGroup, { discard: true })
  })
