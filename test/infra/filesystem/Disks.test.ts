/** Disks of runtimes on a real directory: made private, removed whole, never through a link, never outside. */
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { Disks } from "../../../src/domain/runtimes/Disks.ts"
import { layer } from "../../../src/infra/filesystem/Disks.ts"

const project = ProjectId.make(7)

const withDisks = <A, E>(
  body: (place: { readonly disks: Disks["Service"]; readonly state: string }) => Effect.Effect<A, E>
) =>
  Effect.gen(function* () {
    const state = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const made = Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-disks-"))
        Files.mkdirSync(Path.join(made, "disks"), { mode: 0o711 })
        return made
      }),
      (made) => Effect.sync(() => Files.rmSync(made, { recursive: true, force: true }))
    )
    const disks = yield* Disks.pipe(Effect.provide(layer({ stateDirectory: state })))
    return yield* body({ disks, state })
  }).pipe(Effect.scoped)

const modeOf = (path: string): number => Files.statSync(path).mode & 0o777

describe("Disks", () => {
  it.live("a disk is private whatever the umask, and one that is there keeps what is in it", () =>
    withDisks(({ disks }) =>
      Effect.gen(function* () {
        const path = disks.pathOf(project, "a")
        const umask = process.umask(0)
        yield* disks.ensure(path).pipe(Effect.ensuring(Effect.sync(() => process.umask(umask))))
        assert.strictEqual(modeOf(path), 0o700)
        assert.strictEqual(modeOf(disks.rootOf(project)), 0o711)
        Files.writeFileSync(Path.join(path, "kept"), "kept")
        yield* disks.ensure(path)
        assert.deepStrictEqual(Files.readdirSync(path), ["kept"])
      })
    )
  )

  it.live("removal takes the whole tree and no more, and is repeatable", () =>
    withDisks(({ disks, state }) =>
      Effect.gen(function* () {
        const [path, other] = [disks.pathOf(project, "a"), disks.pathOf(project, "b")]
        yield* disks.ensure(path)
        yield* disks.ensure(other)
        const victim = Path.join(state, "victim")
        Files.mkdirSync(victim)
        Files.writeFileSync(Path.join(victim, "precious"), "kept")
        Files.mkdirSync(Path.join(path, "deep", "er"), { recursive: true })
        Files.symlinkSync(victim, Path.join(path, "deep", "link"))
        Files.symlinkSync(Path.join(victim, "precious"), Path.join(path, "file-link"))
        Files.chmodSync(Path.join(path, "deep", "er"), 0o000)
        yield* disks.remove(path)
        assert.isFalse(yield* disks.exists(path))
        assert.isTrue(yield* disks.exists(other))
        assert.strictEqual(Files.readFileSync(Path.join(victim, "precious"), "utf8"), "kept")
        yield* disks.remove(path)
      })
    )
  )

  it.live("a link in place of a disk is unlinked, and what it leads to is not entered", () =>
    withDisks(({ disks, state }) =>
      Effect.gen(function* () {
        yield* disks.ensure(disks.pathOf(project, "a"))
        const victim = Path.join(state, "victim")
        Files.mkdirSync(victim)
        Files.writeFileSync(Path.join(victim, "precious"), "kept")
        const planted = disks.pathOf(project, "planted")
        Files.symlinkSync(victim, planted)
        yield* disks.remove(planted)
        assert.isFalse(Files.existsSync(planted))
        assert.deepStrictEqual(Files.readdirSync(victim), ["precious"])
      })
    )
  )

  it.live("a path outside of the disks is a defect and never touched", () =>
    withDisks(({ disks, state }) =>
      Effect.gen(function* () {
        for (const path of [
          state,
          Path.join(state, "disks"),
          Path.join(state, "disks", "..", "victim"),
          "/"
        ]) {
          assert.isTrue(Exit.isFailure(yield* Effect.exit(disks.remove(path))), path)
        }
        assert.isTrue(Files.existsSync(Path.join(state, "disks")))
      })
    )
  )
})
