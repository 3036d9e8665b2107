/**
 * What a launch waits for: nothing is spawned before preparing.json is durable, nothing of the guest runs before
 * identity.json is. The disk's answer is held back meanwhile.
 */
import { it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Files from "node:fs"
import { createRequire, syncBuiltinESMExports } from "node:module"
import * as Path from "node:path"
import { expect } from "vitest"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import { reclaimSandbox } from "../../../src/domain/reclamation/reclamation.ts"
import { folderOf, readIdentity, readPreparing } from "../../../src/infra/guests/folders.ts"
import { findWitnesses } from "../../../src/infra/guests/witnesses.ts"
import {
  daemonLayer,
  describeWith,
  eventually,
  GuestSupervisor,
  makeSpec,
  makeStateDirectory,
  run,
  withGuest
} from "../../suites/guestHarness.ts"

type Sync = (descriptor: number, done: (error: Error | null) => void) => void

// The object behind the module, whose changes every importer is told of.
const files: { fsync: Sync } = createRequire(import.meta.url)("node:fs")

/** Holds back the disk's answer about one file until it is let go. */
const holdSync = (path: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const real = files.fsync
      const held: Array<() => void> = []
      let isOpen = false
      files.fsync = (descriptor, done) => {
        const isOurs = !isOpen && Files.readlinkSync(`/proc/self/fd/${descriptor}`) === path
        if (isOurs) held.push(() => real(descriptor, done))
        else real(descriptor, done)
      }
      syncBuiltinESMExports()
      const letGo = () => {
        isOpen = true
        for (const each of held.splice(0)) each()
      }
      return { real, held, letGo }
    }),
    ({ letGo, real }) =>
      Effect.sync(() => {
        files.fsync = real
        syncBuiltinESMExports()
        letGo()
      })
  )

/** A whole launch and a command, which take every way that the held one would have gone. */
const passBy = Effect.suspend(() => {
  const other = makeSpec()
  return withGuest(other, () => run(other.sandbox, ["true"]))
})

/** Starts a guest, and holds its launch at the sync of one record; `look` at it, then let it go on. */
const heldAt = <A>(record: string, look: (stateDirectory: string, sandbox: SandboxId) => A) =>
  Effect.scoped(
    Effect.gen(function* () {
      const stateDirectory = yield* Effect.acquireRelease(
        Effect.sync(() => makeStateDirectory()),
        (directory) => Effect.sync(() => Files.rmSync(directory, { recursive: true, force: true }))
      )
      return yield* Effect.gen(function* () {
        const spec = makeSpec({ argv: ["sh", "-c", "echo ran >/workspace/ran; exec sleep 1000"] })
        const folder = folderOf(stateDirectory, spec.sandbox)
        const hold = yield* holdSync(Path.join(folder.directory, `.${record}.new`))
        const supervisor = yield* GuestSupervisor
        const started = yield* Effect.forkChild(supervisor.start(spec))
        yield* eventually(
          "the disk is asked",
          Effect.sync(() => hold.held.length > 0)
        )
        yield* passBy
        const seen = look(stateDirectory, spec.sandbox)
        hold.letGo()
        yield* Fiber.join(started)
        const ran = Path.join(folder.workspace, "ran")
        const text = () => (Files.existsSync(ran) ? Files.readFileSync(ran, "utf8") : "")
        yield* eventually(
          "the main command runs",
          Effect.sync(() => text() !== "")
        )
        const wrote = text()
        yield* reclaimSandbox(spec.sandbox, { graceMillis: 0 })
        return { seen, wrote }
      }).pipe(Effect.provide(daemonLayer(stateDirectory, "bubblewrap")))
    })
  )

const orderCases = (): void => {
  it.live("RG-RUN-03 nothing is spawned before preparing.json is durable", () =>
    Effect.gen(function* () {
      const { seen, wrote } = yield* heldAt("preparing.json", (stateDirectory, sandbox) => {
        const folder = folderOf(stateDirectory, sandbox)
        return {
          preparing: readPreparing(folder) !== undefined,
          status: Files.readFileSync(folder.status, "utf8"),
          witnesses: findWitnesses(sandbox)
        }
      })
      expect(seen).toEqual({ preparing: false, status: "", witnesses: [] })
      expect(wrote).toBe("ran\n")
    })
  )

  it.live(
    "RG-RUN-02 nothing of the guest runs before identity.json is durable, and one record is always there",
    () =>
      Effect.gen(function* () {
        const { seen, wrote } = yield* heldAt("identity.json", (stateDirectory, sandbox) => {
          const folder = folderOf(stateDirectory, sandbox)
          return {
            preparing: readPreparing(folder) !== undefined,
            identity: readIdentity(folder) !== undefined,
            isSpawned: findWitnesses(sandbox).length > 0,
            hasRun: Files.existsSync(Path.join(folder.workspace, "ran"))
          }
        })
        expect(seen).toEqual({ preparing: true, identity: false, isSpawned: true, hasRun: false })
        expect(wrote).toBe("ran\n")
      })
  )
}

await describeWith("bubblewrap", orderCases)
