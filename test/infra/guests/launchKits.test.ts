/** What is made ahead of a launch: its place, its modes, its lock, and where it must not be put. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { channelNames } from "../../../src/infra/guests/agentLink.ts"
import { folderOf } from "../../../src/infra/guests/folders.ts"
import { kitPrefix, makeKits, placeKit } from "../../../src/infra/guests/launchKits.ts"
import { makeLaunchShell } from "../../../src/infra/guests/launchShell.ts"
import { drawSandbox, makeStateDirectory } from "../../suites/guestHarness.ts"

const state = Effect.acquireRelease(
  Effect.sync(() => {
    const directory = makeStateDirectory()
    Files.mkdirSync(Path.join(directory, "runtime"), { mode: 0o711 })
    return directory
  }),
  (directory) => Effect.sync(() => Files.rmSync(directory, { recursive: true, force: true }))
)

const openKits = (stateDirectory: string) =>
  Effect.gen(function* () {
    const shell = yield* makeLaunchShell()
    return yield* makeKits({ stateDirectory, channelName: channelNames(), shell })
  })

/** A kit of a stock that has made one. */
const takeKit = (stateDirectory: string) =>
  Effect.flatMap(openKits(stateDirectory), (kits) =>
    Effect.map(kits.take, (kit) => {
      if (kit === undefined) throw new Error("no kit was made")
      return kit
    })
  )

const modeOf = (path: string): string => (Files.lstatSync(path).mode & 0o7777).toString(8)

const isLocked = (path: string): boolean => spawnSync("flock", ["-n", path, "true"]).status !== 0

const kitsIn = (stateDirectory: string): ReadonlyArray<string> =>
  Files.readdirSync(Path.join(stateDirectory, "runtime")).filter((name) => name.startsWith(kitPrefix))

describe("launch kits", () => {
  it.live("RG-LAY-01 a placed kit is the sandbox's folder, its lock held and every mode exact", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const stateDirectory = yield* state
        const folder = folderOf(stateDirectory, drawSandbox())
        const before = process.umask(0)
        const kit = yield* Effect.ensuring(
          takeKit(stateDirectory),
          Effect.sync(() => process.umask(before))
        )
        assert.isTrue(placeKit(kit, folder))
        assert.isTrue(isLocked(folder.lock))
        for (const path of [folder.directory, folder.agentNew, folder.run])
          assert.strictEqual(modeOf(path), "711")
        for (const path of [folder.workspace, folder.scratch]) assert.strictEqual(modeOf(path), "700")
        for (const path of [folder.lock, folder.status, folder.options])
          assert.strictEqual(modeOf(path), "600")
        for (const name of Files.readdirSync(folder.agentNew)) {
          assert.strictEqual(modeOf(Path.join(folder.agentNew, name)), "600")
        }
        Files.closeSync(kit.descriptor)
        assert.isFalse(isLocked(folder.lock))
      })
    )
  )

  it.live("RG-RUN-02 a kit is put over nothing that is there, and is then gone with its lock", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const stateDirectory = yield* state
        const kit = yield* takeKit(stateDirectory)
        const folder = folderOf(stateDirectory, drawSandbox())
        Files.mkdirSync(folder.directory)
        Files.writeFileSync(folder.lock, "another's")
        assert.isFalse(placeKit(kit, folder))
        assert.deepStrictEqual(Files.readdirSync(folder.directory), ["owner.lock"])
        assert.strictEqual(Files.readFileSync(folder.lock, "utf8"), "another's")
        assert.notInclude(kitsIn(stateDirectory), Path.basename(kit.directory))
        assert.throws(() => Files.fstatSync(kit.descriptor))
      })
    )
  )

  it.live("what a former daemon has left of kits goes, and with the scope what this one has made", () =>
    Effect.gen(function* () {
      yield* Effect.scoped(
        Effect.gen(function* () {
          const stateDirectory = yield* state
          const former = [`${kitPrefix}1`, `${kitPrefix}2`]
          for (const name of former) {
            Files.mkdirSync(Path.join(stateDirectory, "runtime", name, "agent"), { recursive: true })
          }
          const taken = yield* Effect.scoped(
            Effect.gen(function* () {
              const kits = yield* openKits(stateDirectory)
              const kit = yield* kits.take
              for (const name of former) assert.notInclude(kitsIn(stateDirectory), name)
              return kit
            })
          )
          // Whoever took one has it.
          assert.deepStrictEqual(kitsIn(stateDirectory), [Path.basename(taken?.directory ?? "")])
        })
      )
    })
  )
})
