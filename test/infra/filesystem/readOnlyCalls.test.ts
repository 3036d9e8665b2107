import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Files from "node:fs"
import * as Path from "node:path"
import { create, rename, sync, unlink } from "../../../src/domain/registry/RegistryFiles.ts"
import { readOnlyCalls, readOnlyDisk } from "../../../src/infra/filesystem/readOnlyCalls.ts"
import { make } from "../../../src/infra/filesystem/RegistryFiles.ts"
import { contentsOf, lookAt, temporaryDirectory } from "../../domain/registry/fixture.ts"

describe("filesystem/readOnlyCalls", () => {
  it.live("every call of the port that would change something is refused, and changes nothing", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* lookAt(directory)
      const before = contentsOf(directory)
      const files = yield* make(directory, readOnlyDisk)
      const changes = [
        files.carryOut("records", [create("x", "text")]),
        files.carryOut("records", [rename("meta.json", "x")]),
        files.carryOut("records", [unlink("meta.json")]),
        files.carryOut("records", [sync]),
        files.makeDirectory("x"),
        files.removeDirectory("records")
      ]
      for (const change of changes) {
        assert.include((yield* Effect.flip(change)).message, "changes nothing")
      }
      assert.deepStrictEqual(contentsOf(directory), before)
      assert.isTrue(Option.isSome(yield* files.read("records", "meta.json")))
      assert.throws(() => readOnlyCalls.openSync(Path.join(directory, "x"), Files.constants.O_CREAT))
      assert.throws(() =>
        readOnlyCalls.openSync(Path.join(directory, "sandboxes.json"), Files.constants.O_RDWR)
      )
    })
  )

  it.live("a file that is read does not note it", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* lookAt(directory)
      const path = Path.join(directory, "sandboxes.json")
      // Later than its reading: a disk that notes readings at all would note the next one.
      Files.utimesSync(path, 1_000, 2_000)
      const files = yield* make(directory, readOnlyDisk)
      yield* files.read("state", "sandboxes.json")
      assert.strictEqual(Files.statSync(path).atimeMs, 1_000_000)
    })
  )
})
