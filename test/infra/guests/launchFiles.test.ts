/** The small files of a launch: how they replace what was there, and what they never write through. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import { replaceFiles } from "../../../src/infra/guests/durableFiles.ts"
import { folderAt, readIdentity, readPreparing, readRun } from "../../../src/infra/guests/folders.ts"
import { fillGuestFile } from "../../../src/infra/guests/guestFile.ts"
import { abandonLaunches, forgetFormer, launchMarkOf } from "../../../src/infra/guests/launchFiles.ts"
import { makeStateDirectory } from "../../suites/guestHarness.ts"

const place = Effect.acquireRelease(
  Effect.sync(() => makeStateDirectory()),
  (directory) => Effect.sync(() => Files.rmSync(directory, { recursive: true, force: true }))
)

/** A case with a directory of its own. */
const inPlace = (act: (directory: string) => Promise<void>) =>
  Effect.scoped(Effect.flatMap(place, (directory) => Effect.promise(() => act(directory))))

const failureOf = (promise: Promise<void>): Promise<string | null> =>
  promise.then(
    () => null,
    (error: NodeJS.ErrnoException) => error.code ?? error.message
  )

const textsIn = (directory: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Files.readdirSync(directory)
      .toSorted()
      .map((name) => [name, Files.readFileSync(Path.join(directory, name), "utf8")])
  )

describe("replaced files", () => {
  it.live("are whole, private, and leave nothing beside them, whatever a former write has left", () =>
    inPlace(async (directory) => {
      Files.writeFileSync(Path.join(directory, ".a.new"), "longer than what is written")
      Files.writeFileSync(Path.join(directory, "a"), "former")
      await replaceFiles(directory, [
        ["a", "one"],
        ["b", "two"]
      ])
      assert.deepStrictEqual(textsIn(directory), { a: "one", b: "two" })
      assert.strictEqual(Files.statSync(Path.join(directory, "b")).mode & 0o777, 0o600)
    })
  )

  it.live("RG-COM-05 one that cannot be written leaves all of them as they were", () =>
    inPlace(async (directory) => {
      Files.writeFileSync(Path.join(directory, "a"), "former")
      const failure = await failureOf(
        replaceFiles(directory, [
          ["a", "one"],
          ["missing/b", "two"]
        ])
      )
      assert.strictEqual(failure, "ENOENT")
      assert.deepStrictEqual(textsIn(directory), { a: "former" })
    })
  )

  it.live("RG-LAY-02 are never written through a link or into a pipe", () =>
    inPlace(async (directory) => {
      const victim = Path.join(directory, "victim")
      Files.writeFileSync(victim, "untouched")
      Files.symlinkSync(victim, Path.join(directory, ".a.new"))
      execFileSync("mkfifo", [Path.join(directory, ".b.new")])
      assert.strictEqual(await failureOf(replaceFiles(directory, [["a", "one"]])), "ELOOP")
      assert.strictEqual(await failureOf(replaceFiles(directory, [["b", "two"]])), "ENXIO")
      assert.throws(() => fillGuestFile(Path.join(directory, ".a.new"), "one", { owner: null }), /ELOOP/)
      assert.strictEqual(Files.readFileSync(victim, "utf8"), "untouched")
      assert.deepStrictEqual(
        ["a", "b"].filter((name) => Files.existsSync(Path.join(directory, name))),
        []
      )
    })
  )
})

describe("the former guest's files", () => {
  it.live("RG-RUN-04 the next monitor reports into another file than the former one's", () =>
    inPlace(async (directory) => {
      const folder = folderAt(directory)
      for (const path of [folder.status, Path.join(directory, "identity.json"), folder.log]) {
        Files.writeFileSync(path, "former")
      }
      await forgetFormer(folder)
      assert.deepStrictEqual(Files.readdirSync(directory), ["launch.log"])
    })
  )

  it.live("RG-RUN-03 a launch that was given up finds no mark, and the blank of a mark is none", () =>
    inPlace(async (directory) => {
      const folder = folderAt(directory)
      const mark = launchMarkOf(folder, randomUUID())
      for (const path of [mark, Path.join(directory, ".launching")]) Files.writeFileSync(path, "")
      abandonLaunches(folder)
      assert.deepStrictEqual(Files.readdirSync(directory), [".launching"])
    })
  )
})

describe("the records of a launch", () => {
  it.live(
    "RG-LAY-02 a link in their place is refused, also one that leads nowhere; nothing there is absence",
    () =>
      inPlace(async (directory) => {
        const folder = folderAt(directory)
        assert.isUndefined(readIdentity(folder))
        Files.symlinkSync(Path.join(directory, "nowhere"), Path.join(directory, "identity.json"))
        Files.writeFileSync(Path.join(directory, "victim"), "{}")
        Files.symlinkSync(Path.join(directory, "victim"), Path.join(directory, "preparing.json"))
        assert.throws(() => readIdentity(folder))
        assert.throws(() => readPreparing(folder))
        assert.isUndefined(readRun(folder))
      })
  )
})
