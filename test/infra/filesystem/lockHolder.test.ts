import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { lookAtLock } from "../../../src/infra/filesystem/lockHolder.ts"
import { holdStateDirectory, lockName } from "../../../src/infra/filesystem/OwnerLock.ts"
import { contentsOf, temporaryDirectory } from "../../domain/registry/fixture.ts"

const nobody = { holder: null, fault: null }

describe("filesystem/lockHolder", () => {
  it.live("RG-LAY-03 the holder is named while it holds, and neither takes nor notices the look", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* holdStateDirectory(directory, "daemon here")
          const path = Path.join(directory, lockName)
          const before = Files.statSync(path, { bigint: true })
          assert.deepStrictEqual(lookAtLock(directory), {
            holder: `daemon here (process ${process.pid})`,
            fault: null
          })
          const after = Files.statSync(path, { bigint: true })
          assert.deepStrictEqual(
            [after.atimeNs, after.mtimeNs, after.ctimeNs],
            [before.atimeNs, before.mtimeNs, before.ctimeNs]
          )
        })
      )
      assert.deepStrictEqual(lookAtLock(directory), nobody)
      yield* holdStateDirectory(directory, "the next")
    })
  )

  it.live.each([
    ["nothing", ""],
    ["abc", "abc"],
    ["5 MiB", "x".repeat(5 * 1024 ** 2)],
    ["a live pid of somebody else", String(process.ppid)]
  ] as const)("FC-17 a lock file that holds %s names no holder", ([, content]) =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      Files.writeFileSync(Path.join(directory, lockName), content, { mode: 0o600 })
      const descriptor = Files.openSync(Path.join(directory, lockName), "r")
      yield* Effect.addFinalizer(() => Effect.sync(() => Files.closeSync(descriptor)))
      assert.deepStrictEqual(lookAtLock(directory), nobody)
    })
  )

  it.live("a directory without a lock file gets none", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      assert.deepStrictEqual(lookAtLock(directory), nobody)
      assert.deepStrictEqual(contentsOf(directory), [])
    })
  )

  it.live.each([
    ["a link", (path: string) => Files.symlinkSync("/etc/hostname", path)],
    ["a pipe", (path: string) => execFileSync("mkfifo", ["-m", "600", path])],
    ["a directory", (path: string) => Files.mkdirSync(path)]
  ] as const)("FC-17 RG-LAY-02 %s in place of the lock is told, without waiting", ([, make]) =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      make(Path.join(directory, lockName))
      assert.include(lookAtLock(directory).fault, "not a regular file")
    })
  )
})
