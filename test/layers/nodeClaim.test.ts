import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { lockName } from "../../src/infra/filesystem/OwnerLock.ts"
import { resolveSettings } from "../../src/layers/config.ts"
import { claimNode } from "../../src/layers/node.ts"
import { contentsOf, lookAt, temporaryDirectory } from "../domain/registry/fixture.ts"
import { layOutUnactivated, writeSnapshot } from "../domain/registry/snapshotFixture.ts"

/** A home with a version-1 registry in it. */
const snapshotHome = Effect.map(temporaryDirectory, (home) => {
  const state = Path.join(home, "state")
  Files.mkdirSync(state, { mode: 0o700 })
  return { home, state, place: writeSnapshot(state) }
})

const claim = (home: string) =>
  Effect.flip(Effect.scoped(claimNode(resolveSettings({ home }, {}, process.getuid?.() ?? 0))))

/** What the daemon's own lock file is not. */
const registryOf = (state: string) => contentsOf(state).filter(([name]) => name !== lockName)

/** Lets the native preflight fail at its first step, whatever this machine can carry. */
const spoilPreflight = (state: string) => Files.writeFileSync(Path.join(state, "disks"), "")

describe("layers/node, claiming", () => {
  it.live(
    "RG-MIG-06 an occupied version-1 registry without its marker ends the start before anything native",
    () =>
      Effect.gen(function* () {
        const { home, place, state } = yield* snapshotHome
        layOutUnactivated(place)
        Files.rmSync(Path.join(state, "runtime"), { recursive: true })
        const before = registryOf(state)
        const refusal = yield* claim(home)
        assert.deepInclude(refusal, { code: "state_directory_refused", path: "runtime/owner.json" })
        assert.include(refusal.message, "preserve the original ownership state")
        assert.deepStrictEqual(registryOf(state), before)
      })
  )

  it.live("RG-MIG-02 the native preflight comes after the migration: one that fails finds it done", () =>
    Effect.gen(function* () {
      const { home, place, state } = yield* snapshotHome
      spoilPreflight(state)
      const refusal = yield* claim(home)
      assert.deepInclude(refusal, { _tag: "GuestStateUnusable", path: "disks" })
      assert.strictEqual(JSON.parse(place.read("sandboxes.json")).version, 2)
      assert.strictEqual((yield* lookAt(state)).size, 3)
    })
  )

  it.live.each([
    ["nothing", ""],
    ["abc", "abc"],
    ["5 MiB", "x".repeat(5 * 1024 ** 2)],
    ["the pid of a living process", String(process.ppid)]
  ] as const)("FC-17 a lock file that holds %s does not keep the daemon from its registry", ([, content]) =>
    Effect.gen(function* () {
      const { home, place, state } = yield* snapshotHome
      place.write(lockName, content)
      spoilPreflight(state)
      assert.strictEqual((yield* claim(home))._tag, "GuestStateUnusable")
      assert.match(place.read(lockName), new RegExp(`^holdfast .* process ${process.pid} on .*\n$`))
      assert.strictEqual(JSON.parse(place.read("sandboxes.json")).version, 2)
    })
  )

  it.live.each([
    ["a link", (path: string) => Files.symlinkSync("/etc/hostname", path)],
    ["a pipe", (path: string) => execFileSync("mkfifo", ["-m", "600", path])],
    ["a directory", (path: string) => Files.mkdirSync(path)]
  ] as const)(
    "FC-17 RG-LAY-02 %s in place of the lock ends the start before the registry is looked at",
    ([, make]) =>
      Effect.gen(function* () {
        const { home, state } = yield* snapshotHome
        make(Path.join(state, lockName))
        const before = contentsOf(state)
        assert.deepInclude(yield* claim(home), { code: "state_directory_refused", path: lockName })
        assert.deepStrictEqual(contentsOf(state), before)
      })
  )
})
